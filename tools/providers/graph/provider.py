"""A mailbox of Microsoft 365."""

import functools
import os
from collections.abc import Iterable
from typing import Any, Self
from urllib.parse import quote
from uuid import UUID

import httpx2
from django.conf import settings

from accounts.connect import microsoft
from accounts.connect.refreshing import access_token
from accounts.infra import credentials
from accounts.models import Mailbox
from tools.providers.base import ComposedProvider
from tools.providers.graph.attachments import GraphAttachments
from tools.providers.graph.client import GraphClient
from tools.providers.graph.drafting import GraphDrafts
from tools.providers.graph.evidence import GraphEvidence
from tools.providers.graph.mailbox import GraphMailbox
from tools.providers.graph.reading import GraphReader
from tools.providers.graph.sending import GraphSender


class GraphProvider(ComposedProvider):
    name = "microsoft"
    send_scope = microsoft.SEND
    always_keeps_copy = False

    def __init__(
        self, client: GraphClient, *, mailbox_id: UUID, generation: int, scopes: Iterable[str]
    ) -> None:
        self.mailbox = GraphMailbox(
            client, mailbox_id=mailbox_id, generation=generation, scopes=scopes
        )
        attachments = GraphAttachments(client)
        drafts = GraphDrafts(self.mailbox, attachments)
        evidence = GraphEvidence(self.mailbox, attachments)
        self.reader = GraphReader(self.mailbox, attachments)
        self.drafts = drafts
        self.evidence = evidence
        self.sender = GraphSender(self.mailbox, drafts, attachments, evidence)

    @classmethod
    def for_mailbox(cls, mailbox: Mailbox) -> Self:
        secrets = credentials.decrypt(bytes(mailbox.credentials), mailbox_id=mailbox.id)
        mailbox_id = mailbox.id

        def token(rejected: str) -> str:
            found = access_token(mailbox, microsoft.refresh, known=secrets, rejected=rejected)
            if found != secrets.get("access_token"):  # a renewed token may have other permissions
                provider.mailbox.scopes = frozenset(
                    Mailbox.objects.values_list("scopes", flat=True).get(pk=mailbox_id)
                )
            return found

        client = GraphClient(
            settings.GRAPH_BASE_URL,
            f"/users/{quote(mailbox.address, safe='@')}" if secrets.get("application") else "/me",
            tokens=token,
            key=mailbox_id,
            transport=_shared_transport(os.getpid()),
            transports=_own_transport,
        )
        provider = cls(
            client, mailbox_id=mailbox_id, generation=mailbox.generation, scopes=mailbox.scopes
        )
        return provider


@functools.cache
def _shared_transport(process: int) -> httpx2.BaseTransport:
    """Return one pool of connections for all reads of this process; a forked process makes
    its own.
    """
    return httpx2.HTTPTransport(
        verify=_trust_context(process), limits=httpx2.Limits(max_keepalive_connections=20)
    )


@functools.cache
def _trust_context(process: int) -> Any:
    return httpx2.create_ssl_context()  # cached: reading the certificates costs more than a call


def _own_transport() -> httpx2.BaseTransport:
    return httpx2.HTTPTransport(verify=_trust_context(os.getpid()))
