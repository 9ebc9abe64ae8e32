"""A mailbox in Graph: its handles, its folders, and its rows in the types of the tools."""

import functools
import hashlib
import os
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Self
from urllib.parse import quote
from uuid import UUID

import httpx2
from django.conf import settings

from accounts.connect import microsoft
from accounts.connect.refreshing import access_token
from accounts.infra import credentials
from accounts.models import Mailbox
from tools.providers import handles, lenient
from tools.providers.base import AttachmentInfo, role_of
from tools.providers.errors import NotFound
from tools.providers.graph.client import GraphClient
from tools.providers.graph.outgoing import address_of

WELL_KNOWN = {
    "inbox": "inbox", "sent": "sentitems", "drafts": "drafts", "archive": "archive", "junk": "junkemail",
    "trash": "deleteditems",
}  # fmt: skip
FOLDER_FIELDS = "id,displayName,unreadItemCount,totalItemCount,childFolderCount"
BRANCHES = 100  # folders that are searched for subfolders: each is a request
FOLDER_ID = re.compile(r"[A-Za-z0-9+/_=-]{40,}")  # an id, or a long name
NO_FOLDER = "There is no such folder; list_folders names them."
NOT_SEEN = "There is no such folder among those that list_folders names. It does not name all: say the folder's id."
_FOLDER_IDS: dict[tuple[UUID, str], str] = {}  # by mailbox and role: they never change
_KNOWN: set[tuple[UUID, str]] = set()  # ids of folders that existed once
READS = {microsoft.READ, microsoft.DRAFT}


@functools.cache
def _shared_transport(process: int) -> httpx2.BaseTransport:
    """Return one pool of connections for all reads of this process; a forked process makes
    its own.
    """
    return httpx2.HTTPTransport(
        verify=_trusted(process), limits=httpx2.Limits(max_keepalive_connections=20)
    )


@functools.cache
def _trusted(process: int) -> Any:
    return httpx2.create_ssl_context()  # cached: reading the certificates costs more than a call


def _own_transport() -> httpx2.BaseTransport:
    return httpx2.HTTPTransport(verify=_trusted(os.getpid()))


class GraphMailbox:
    """The base of reading, drafting and sending. `scopes` are the permissions that were granted."""

    def __init__(self, client: GraphClient, *, mailbox_id: UUID, scopes: Iterable[str]) -> None:
        self._client = client
        self._mailbox_id = mailbox_id
        self._scopes = frozenset(scopes)

    @classmethod
    def for_mailbox(cls, mailbox: Mailbox) -> Self:
        secrets = credentials.decrypt(bytes(mailbox.credentials), mailbox_id=mailbox.id)
        mailbox_id = mailbox.id

        def token(rejected: str) -> str:
            found = access_token(mailbox_id, microsoft.refresh, known=secrets, rejected=rejected)
            if found != secrets.get("access_token"):  # a renewed token may have other permissions
                provider._scopes = frozenset(
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
        provider = cls(client, mailbox_id=mailbox_id, scopes=mailbox.scopes)
        return provider

    def _path(self, message_id: str) -> str:
        """Return the path of a message, by its handle. Raises NotFound."""
        named = handles.named(self._mailbox_id, message_id)
        if named is None or named.startswith(("http:", "https:")):
            raise NotFound()
        return f"/messages/{quote(named, safe='')}"

    def _handle(self, named: str) -> str:
        return handles.shortened(self._mailbox_id, [named])[named]

    def _folder_path(self, folder: str) -> str:
        """Return the path of a folder, by role, name or id. Raises NotFound."""
        role = role_of(folder)
        if role is not None:
            return f"/mailFolders/{WELL_KNOWN[role]}"
        if FOLDER_ID.fullmatch(folder) and self._is_folder(folder):
            return f"/mailFolders/{quote(folder, safe='')}"
        rows = self._folder_rows()
        for row in rows:
            if folder in (row["id"], row.get("displayName")):
                return f"/mailFolders/{quote(str(row['id']), safe='')}"
        raise NotFound(NOT_SEEN if any(row.get("more_inside") for row in rows) else NO_FOLDER)

    def _is_folder(self, folder_id: str) -> bool:
        """Return True if any folder has this id; a positive answer is remembered."""
        if (self._mailbox_id, folder_id) not in _KNOWN:
            try:
                self._client.get(f"/mailFolders/{quote(folder_id, safe='')}", {"$select": "id"})
            except NotFound:
                return False
            _KNOWN.add((self._mailbox_id, folder_id))
        return True

    def _folder_rows(self) -> list[dict[str, Any]]:
        """Return the folders, the upper ones first.

        Folders beyond the limit of subfolder requests are marked with `more_inside`.
        """
        params: dict[str, str | int] = {"$top": 100, "$select": FOLDER_FIELDS}
        rows = self._client.rows("/mailFolders", params)
        looked_into = 0
        for row in rows:  # the list grows during the loop
            if not row.get("childFolderCount"):
                continue
            if looked_into == BRANCHES:
                row["more_inside"] = True
                continue
            rows += self._client.rows(
                f"/mailFolders/{quote(str(row['id']), safe='')}/childFolders", params
            )
            looked_into += 1
        return rows

    def _id_of_role(self, role: str) -> str:
        """Return the id of the folder with a role, in any display language; empty if there is no
        such folder yet.
        """
        key = (self._mailbox_id, role)
        if key not in _FOLDER_IDS:
            try:
                answer = self._client.get(f"/mailFolders/{WELL_KNOWN[role]}", {"$select": "id"})
            except NotFound:
                return ""
            _FOLDER_IDS[key] = str(answer.body["id"])
        return _FOLDER_IDS[key]

    def _drafts_folder(self) -> str:
        return self._id_of_role("drafts")


def moment(value: Any) -> datetime | None:
    """Return a time of Graph, or None if it is not a valid time."""
    try:
        found = datetime.fromisoformat(str(value).replace("Z", "+00:00"))
        return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None


def sender_of(row: dict[str, Any]) -> tuple[str, str]:
    """Return (name, address) of the sender, without control characters."""
    name, address = address_of(row.get("from") or row.get("sender"))
    return lenient.decoded(name), lenient.decoded(address)


def addresses(row: dict[str, Any], name: str) -> tuple[str, ...]:
    found = (lenient.decoded(address_of(each)[1]) for each in row.get(name) or [])
    return tuple(address for address in found if address)


def mark_of(graph_id: str) -> str:
    """Return a short mark that identifies an id among few."""
    return hashlib.blake2b(graph_id.encode(), digest_size=6).hexdigest()


def attachment_info(row: dict[str, Any]) -> AttachmentInfo:
    is_mail = str(row.get("@odata.type") or "").endswith("itemAttachment")
    return AttachmentInfo(
        id=mark_of(str(row.get("id"))),
        name=lenient.decoded(row.get("name") or ""),
        type=str(
            row.get("contentType") or ("message/rfc822" if is_mail else "application/octet-stream")
        ).lower(),
        size=int(row.get("size") or 0),
        inline=bool(row.get("isInline")),
        content_id=str(row.get("contentId") or "").strip("<>"),
    )
