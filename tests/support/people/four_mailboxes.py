"""Ada's mailbox on four servers: the sandbox, Dovecot, and our own ones for Graph and Gmail."""

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from accounts.infra import credentials
from accounts.models import Mailbox, Membership, Role, User
from tests.conftest import Api, make_api
from tests.support.people.gmail import CLIENT, connected
from tests.support.servers.dovecot import Dovecot
from tests.support.servers.gmail import GmailServer
from tests.support.servers.graph import GraphServer, graph_mailbox
from tests.support.servers.sandbox import ADA, SandboxServer
from tools.providers.imap import message_ids
from tools.providers.imap.sessions import POOL


@dataclass(frozen=True, kw_only=True)
class Door:
    """One mailbox, with a way to put a message into it and a program that reads it."""

    name: str
    api: Api
    deliver: Callable[[bytes], Any]

    def receive(self, sources: list[bytes]) -> list[dict[str, Any]]:
        """Deliver the messages, and return their cards in this order."""
        for source in sources:
            self.deliver(source)
        found: list[dict[str, Any]] = []
        page: dict[str, Any] = {"next_page_token": None}
        while "next_page_token" in page and len(found) < len(sources):
            token = page["next_page_token"]
            page = self.tool("list_emails", max_results=50, page_token=token)
            found += page["emails"]
        assert len(found) == len(sources), f"{self.name} lists {len(found)} of {len(sources)}"
        # The list is by date; on IMAP the ids say the order of arrival.
        mailbox = Mailbox.objects.get(tokens__name=self.name)
        places = [message_ids.decode(card["id"], mailbox.pk) for card in found]
        if not all(places):
            return found[::-1]
        uids = [place.uid for place in places if place]
        return [card for _, card in sorted(zip(uids, found, strict=True), key=lambda each: each[0])]

    def tool(self, name: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool, and return its result or its problem."""
        result: dict[str, Any] = self.api.tool(name, **arguments).json()
        return result


@pytest.fixture
def doors(
    db: None, alice: User, sandbox: SandboxServer, dovecot: Dovecot, settings: Any
) -> Iterator[list[Door]]:
    tag = uuid.uuid4().hex[:8]
    own, at_microsoft, at_google = (
        f"ada.{tag}.{place}@lovelace.example" for place in ("dovecot", "graph", "gmail")
    )
    with GraphServer() as graph, GmailServer() as gmail:
        settings.GRAPH_BASE_URL = graph.url
        settings.GMAIL_BASE_URL, settings.GOOGLE_TOKEN_URI = gmail.url, gmail.token_uri
        gmail.clients[CLIENT["client_id"]] = CLIENT["client_secret"]
        gmail.message_ids = "kept"
        at_graph = graph_mailbox(graph, at_microsoft)
        Membership.objects.create(mailbox=at_graph, user=alice, role=Role.MANAGER)
        yield [
            Door(
                name="sandbox",
                api=make_api(alice, _on_imap(alice, sandbox.access(ADA)), name="sandbox"),
                deliver=lambda source: sandbox.deliver(ADA, source),
            ),
            Door(
                name="dovecot",
                api=make_api(alice, _on_imap(alice, dovecot.access(own)), name="dovecot"),
                deliver=lambda source: dovecot.deliver(own, source),
            ),
            Door(
                name="graph",
                api=make_api(alice, at_graph, name="graph"),
                deliver=lambda source: graph.deliver(at_microsoft, source),
            ),
            Door(
                name="gmail",
                api=make_api(alice, connected(gmail, alice, at_google), name="gmail"),
                deliver=lambda source: gmail.deliver(at_google, source),
            ),
        ]
        POOL.close_all()


def _on_imap(owner: User, access: Any) -> Mailbox:
    mailbox_id = uuid.uuid4()
    mailbox = Mailbox.objects.create(
        id=mailbox_id,
        address=access.username,
        provider="imap",
        provider_files_copies=False,  # as after its first mail
        credentials=credentials.encrypt(access.as_secrets(), mailbox_id=mailbox_id),
    )
    Membership.objects.create(mailbox=mailbox, user=owner, role=Role.MANAGER)
    return mailbox
