"""A mailbox in Graph: its handles, its folders, and its rows in the types of the tools."""

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote
from uuid import UUID

from accounts.connect import microsoft
from accounts.infra.texts import translatable
from tools.mail.message import lenient
from tools.mail.message.files import name_files
from tools.providers import handles
from tools.providers.base import AttachmentInfo, role_of
from tools.providers.errors import NotFound
from tools.providers.graph.client import GraphClient
from tools.providers.graph.outgoing import address_of

WELL_KNOWN = {
    "inbox": "inbox", "sent": "sentitems", "drafts": "drafts", "archive": "archive", "junk": "junkemail",
    "trash": "deleteditems",
}  # fmt: skip
STATE = "id,isDraft,changeKey,parentFolderId,internetMessageId"  # of a draft
FOLDER_FIELDS = "id,displayName,unreadItemCount,totalItemCount,childFolderCount"
BRANCHES = 100  # folders that are searched for subfolders: each is a request
FOLDER_ID = re.compile(r"[A-Za-z0-9+/_=-]{40,}")  # an id, or a long name
NO_FOLDER = translatable("There is no such folder; list_folders names them.")
NOT_SEEN = translatable(
    "list_folders does not name this folder, and it does not name all folders. Use the id of the folder."
)
Account = tuple[UUID, int]  # a mailbox, and which of its accounts
_FOLDER_IDS: dict[tuple[Account, str], str] = {}  # by role: in one account they never change
_KNOWN: set[tuple[Account, str]] = set()  # ids of folders that existed once
READS = {microsoft.READ, microsoft.DRAFT}


class GraphMailbox:
    """One mailbox in Graph: its client, handles, folders and permissions.

    `scopes` are the permissions that were granted. Another `generation` is another account.
    """

    def __init__(
        self, client: GraphClient, *, mailbox_id: UUID, generation: int, scopes: Iterable[str]
    ) -> None:
        self.client = client
        self.id = mailbox_id
        self._account = (mailbox_id, generation)
        self.scopes = frozenset(scopes)

    @property
    def can_read(self) -> bool:
        return bool(self.scopes & READS)

    @property
    def can_draft(self) -> bool:
        return microsoft.DRAFT in self.scopes

    def find_message(self, message_id: str) -> str:
        """Return the path of a message, by its handle. Raises NotFound."""
        named = handles.find_name(self.id, message_id)
        if named is None or named.startswith(("http:", "https:")):
            raise NotFound()
        return path_of(named)

    def shorten(self, named: str) -> str:
        """Return the handle of a long id."""
        return handles.shorten(self.id, [named])[named]

    def find_folder(self, folder: str) -> str:
        """Return the path of a folder, by role, name or id. Raises NotFound."""
        role = role_of(folder)
        if role is not None:
            return f"/mailFolders/{WELL_KNOWN[role]}"
        if FOLDER_ID.fullmatch(folder) and self._is_folder(folder):
            return f"/mailFolders/{quote(folder, safe='')}"
        rows = self.list_folder_rows()
        for row in rows:
            if folder in (row["id"], row.get("displayName")):
                return f"/mailFolders/{quote(str(row['id']), safe='')}"
        raise NotFound(NOT_SEEN if any(row.get("more_inside") for row in rows) else NO_FOLDER)

    def _is_folder(self, folder_id: str) -> bool:
        """Return True if any folder has this id; a positive answer is remembered."""
        if (self._account, folder_id) not in _KNOWN:
            try:
                self.client.get(f"/mailFolders/{quote(folder_id, safe='')}", {"$select": "id"})
            except NotFound:
                return False
            _KNOWN.add((self._account, folder_id))
        return True

    def list_folder_rows(self) -> list[dict[str, Any]]:
        """Return the folders, the upper ones first.

        Folders beyond the limit of subfolder requests are marked with `more_inside`.
        """
        params: dict[str, str | int] = {"$top": 100, "$select": FOLDER_FIELDS}
        rows = self.client.rows("/mailFolders", params)
        looked_into = 0
        for row in rows:  # the list grows during the loop
            if not row.get("childFolderCount"):
                continue
            if looked_into == BRANCHES:
                row["more_inside"] = True
                continue
            rows += self.client.rows(
                f"/mailFolders/{quote(str(row['id']), safe='')}/childFolders", params
            )
            looked_into += 1
        return rows

    def find_role(self, role: str) -> str:
        """Return the id of the folder with a role, in any display language; empty if there is no
        such folder yet.
        """
        key = (self._account, role)
        if key not in _FOLDER_IDS:
            try:
                answer = self.client.get(f"/mailFolders/{WELL_KNOWN[role]}", {"$select": "id"})
            except NotFound:
                return ""
            _FOLDER_IDS[key] = str(answer.body["id"])
        return _FOLDER_IDS[key]


def path_of(graph_id: str) -> str:
    """Return the path of a message, by its id in Graph."""
    return f"/messages/{quote(graph_id, safe='')}"


def path_in(folder: str, graph_id: str) -> str:
    """Return the path of a message that is found only in this folder: not once it is on its way."""
    return f"/mailFolders/{quote(folder, safe='')}{path_of(graph_id)}"


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
    return lenient.decode_text(name), lenient.decode_text(address)


def addresses(row: dict[str, Any], name: str) -> tuple[str, ...]:
    found = (lenient.decode_text(address_of(each)[1]) for each in row.get(name) or [])
    return tuple(address for address in found if address)


def mark_of(graph_id: str) -> str:
    """Return a short mark that identifies an id among few."""
    return hashlib.blake2b(graph_id.encode(), digest_size=6).hexdigest()


def attachment_infos(rows: Sequence[dict[str, Any]]) -> tuple[AttachmentInfo, ...]:
    """Return the attachments that Graph lists. Their sizes include some overhead."""
    given = [
        AttachmentInfo(
            id=mark_of(str(row.get("id"))),
            name=lenient.decode_text(row.get("name") or ""),
            type=_type_of(row),
            size=int(row.get("size") or 0),
            size_is_estimate=True,
            inline=bool(row.get("isInline")),
            content_id=str(row.get("contentId") or "").strip("<>"),
        )
        for row in rows
    ]
    names = name_files((info.name, info.type) for info in given)
    return tuple(
        replace(info, name=name, original_name=info.name if info.name != name else "")
        for info, name in zip(given, names, strict=True)
    )


def _type_of(row: dict[str, Any]) -> str:
    is_mail = str(row.get("@odata.type") or "").endswith("itemAttachment")
    usual = "message/rfc822" if is_mail else "application/octet-stream"
    return str(row.get("contentType") or usual).lower()
