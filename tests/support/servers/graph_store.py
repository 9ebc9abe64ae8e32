"""Mailboxes as Microsoft Graph shows them: items and folders.

Stricter than a real one where that shows mistakes. As in Graph, stored times are finer than the
shown ones.
"""

import base64
import hashlib
import itertools
import re
import threading
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from typing import Any

from tests.support.servers.memory import MemoryProvider, MemoryServer
from tools.mail.message import lenient
from tools.providers.base import Message

WIRE = SMTP.clone(cte_type="7bit")
NAMES = {
    "inbox": "Inbox",
    "sentitems": "Sent Items",
    "drafts": "Drafts",
    "deleteditems": "Deleted Items",
    "archive": "Archive",
}
BCC = re.compile(rb"^Bcc:[^\r\n]*\r\n(?:[ \t][^\r\n]*\r\n)*", re.IGNORECASE | re.MULTILINE)
NOT_SHOWN = ("singleValueExtendedProperties", "attachments")


class BadRequest(Exception):
    """A query that Graph refuses with 400; `code` is its error code."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@dataclass
class Item:
    """A message: `shown` is its JSON, `source` its bytes where it came as bytes."""

    shown: dict[str, Any]
    folder: str
    files: list[dict[str, Any]] = field(default_factory=list)
    extended: dict[str, str] = field(default_factory=dict)
    references: tuple[str, ...] = ()
    source: bytes | None = None

    @property
    def id(self) -> str:
        return str(self.shown["id"])

    def changed(self) -> None:
        self.shown["changeKey"] = uuid.uuid4().hex
        self.shown["hasAttachments"] = any(not file.get("isInline") for file in self.files)

    def addresses(self, name: str) -> tuple[str, ...]:
        given = (each["emailAddress"] for each in self.shown.get(name) or [])
        return tuple(each["address"] for each in given if "address" in each)

    def recipients(self) -> tuple[str, ...]:
        return tuple(
            a
            for name in ("toRecipients", "ccRecipients", "bccRecipients")
            for a in self.addresses(name)
        )

    def mime(self, *, bcc: int | None = 0) -> bytes:
        """Return the message as it is sent. With `bcc`, include the first ones of its blind copies,
        as the sender's mailbox does.
        """
        if self.source is not None:
            return self.source
        shown, message = self.shown, EmailMessage(policy=WIRE)
        message["From"] = shown["from"]["emailAddress"]["address"]
        people = {
            "To": self.addresses("toRecipients"),
            "Cc": self.addresses("ccRecipients"),
            "Bcc": self.addresses("bccRecipients")[:bcc],
        }
        for header, addresses in people.items():
            if addresses:
                message[header] = ", ".join(addresses)
        message["Subject"] = shown["subject"]
        message["Date"] = shown["sentDateTime"] and format_datetime(
            datetime.fromisoformat(shown["sentDateTime"].replace("Z", "+00:00"))
        )
        message["Message-ID"] = shown["internetMessageId"]
        if self.references:
            message["In-Reply-To"], message["References"] = (
                self.references[-1],
                " ".join(self.references),
            )
        if shown["importance"] != "normal":
            message["Importance"] = shown["importance"]
        content = shown["body"]["content"]
        message.set_content(
            content, subtype="html" if shown["body"]["contentType"] == "html" else "plain"
        )
        for file in self.files:
            maintype, _, subtype = file["contentType"].partition("/")
            message.add_attachment(
                base64.b64decode(file["contentBytes"]),
                maintype,
                subtype,
                filename=file["name"],
                cid=f"<{file['contentId']}>" if file.get("contentId") else None,
                disposition="inline" if file.get("isInline") else "attachment",
            )
        return message.as_bytes()


class Store:
    """All mailboxes of one server.

    Times of arrival are 400 ms apart, so messages have an order that the shown seconds do not give.
    `names` are the names of the folders in their person's language.
    """

    def __init__(self) -> None:
        self.items: dict[str, dict[str, Item]] = {}
        self.purged: dict[str, Item] = {}  # no client can reach them
        self.names = dict(NAMES)
        self.made: dict[str, dict[str, tuple[str, str]]] = {}
        self.lock = threading.RLock()
        self.one_second = False
        self.splits_subjects = False  # as Exchange does: another subject is another conversation
        self._clock = itertools.count(1)
        self._began = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=2)

    def of(self, address: str) -> dict[str, Item]:
        return self.items.setdefault(address.lower(), {})

    def now(self) -> str:
        at = self._began + timedelta(
            milliseconds=400 * next(self._clock) if not self.one_second else 0
        )
        return f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03}Z"

    def in_folder(self, address: str, folder: str) -> list[Item]:
        return [item for item in self.of(address).values() if item.folder == folder]

    def new(self, address: str, folder: str, given: dict[str, Any], **more: Any) -> Item:
        """Add an item with the fields that Graph fills in; its id has 150 characters, as in
        Graph.
        """
        with self.lock:
            now = self.now()
            body = given.get("body") or {}
            kind = str(body.get("contentType") or "text").lower()
            message_id = given.get("internetMessageId") or f"<{uuid.uuid4().hex}@exchange.example>"
            shown = {
                "id": f"AAMk{hashlib.sha512(uuid.uuid4().bytes).hexdigest()}AAA={'x' * 14}",
                "subject": "",
                "toRecipients": [],
                "ccRecipients": [],
                "bccRecipients": [],
                "replyTo": [],
                "importance": "normal",
                "isRead": True,
                "isDraft": True,
                "hasAttachments": False,
                "from": as_recipient(address),
                "internetMessageHeaders": None,
                "conversationId": hashlib.sha256(message_id.encode()).hexdigest()[:32],
                "receivedDateTime": now,
                "sentDateTime": now,
                "parentFolderId": folder_id(address, folder),
                **{name: value for name, value in given.items() if name not in NOT_SHOWN},
                "internetMessageId": message_id,
                "body": {"contentType": kind, "content": body.get("content") or ""},
            }
            shown["bodyPreview"] = _preview(shown["body"])
            item = Item(shown=shown, folder=folder, **more)
            for file in given.get("attachments") or []:
                self.attach(item, file)
            _extend(item, given)
            item.changed()
            self.of(address)[item.id] = item
            return item

    def attach(self, item: Item, given: dict[str, Any]) -> dict[str, Any]:
        content = base64.b64decode(given.get("contentBytes") or "")
        file = {
            "@odata.type": "#microsoft.graph.fileAttachment",
            "id": f"ATT{uuid.uuid4().hex * 4}",
            "isInline": False,
            "contentId": None,
            "contentType": "application/octet-stream",
            **given,
            "size": len(content),
        }
        item.files.append(file)
        item.changed()
        return file

    def patch(self, item: Item, given: dict[str, Any]) -> None:
        for name, value in given.items():
            if name == "body":
                kind = str(value.get("contentType") or "text").lower()
                item.shown["body"] = {"contentType": kind, "content": value["content"]}
                item.shown["bodyPreview"] = _preview(item.shown["body"])
            elif name != "singleValueExtendedProperties":
                item.shown[name] = value
        _extend(item, given)
        item.source = None
        item.changed()

    def move(self, address: str, item: Item, folder: str) -> None:
        item.folder = folder
        item.shown["parentFolderId"] = folder_id(address, folder)
        item.changed()

    def deliver(
        self,
        address: str,
        source: bytes,
        *,
        folder: str = "inbox",
        unread: bool = True,
        conversation: str = "",
    ) -> Item:
        """Add a message that comes as bytes, parsed as leniently as in Exchange.

        It joins the conversation of a message that it names, or of the one with the Message-ID
        `conversation`.
        """
        reader = MemoryProvider(server := MemoryServer(), address)
        server.deliver(address, source)
        (card,) = reader.list_messages(folder="inbox", unread=None, limit=1, page_token=None).cards
        message = reader.read_message(card.id, body=True)
        headers = lenient.headers(source)
        before = () if self.splits_subjects else message.references
        root = (*before, message.message_id)[0] or uuid.uuid4().hex
        conversation = next(
            (
                item.shown["conversationId"]
                for item in self.of(address).values()
                if item.shown["internetMessageId"] in (conversation, *message.references)
                and not (
                    self.splits_subjects
                    and not conversation
                    and topic_of(item.shown["subject"]) != topic_of(message.subject)
                )
            ),
            hashlib.sha256(root.encode()).hexdigest()[:32],
        )
        named = (
            as_recipient(message.from_address, message.from_name) if message.from_address else None
        )
        item = self.new(
            address,
            folder,
            {
                "subject": message.subject,
                "from": named,
                "isRead": not unread,
                "isDraft": folder == "drafts",
                "toRecipients": [as_recipient(a) for a in message.to],
                "ccRecipients": [as_recipient(a) for a in message.cc],
                "replyTo": [as_recipient(a) for a in message.reply_to],
                "internetMessageId": message.message_id,
                "internetMessageHeaders": [
                    {"name": name, "value": str(value)} for name, value in headers.items()
                ],
                "conversationId": conversation,
                "body": {
                    "contentType": "html" if message.html is not None else "text",
                    "content": (
                        message.html if message.html is not None else message.text or ""
                    ).replace("\n", "\r\n"),
                },
            },
            source=source,
            references=message.references,
        )
        if message.date is not None:
            item.shown["sentDateTime"] = f"{message.date.astimezone(UTC).isoformat()}"
        for info in message.attachments:
            _, content = reader.fetch_attachment(card.id, info.id, limit=10**9)
            item_kind = "itemAttachment" if info.type == "message/rfc822" else "fileAttachment"
            self.attach(
                item,
                {
                    "@odata.type": f"#microsoft.graph.{item_kind}",
                    "name": info.name,
                    "contentType": info.type,
                    "contentBytes": base64.b64encode(content or _inner(message)).decode(),
                    "isInline": info.inline,
                    "contentId": info.content_id or None,
                },
            )
        return item

    def receive(self, address: str, source: bytes) -> Item:
        """Add a message that its owner sends as MIME, without its Bcc header."""
        parsed = message_from_bytes(source, policy=SMTP)
        hidden = parsed["Bcc"].addresses if parsed["Bcc"] else ()
        head, end, body = source.partition(b"\r\n\r\n")
        item = self.deliver(address, BCC.sub(b"", head + b"\r\n") + end[2:] + body, folder="outbox")
        item.shown["bccRecipients"] = [as_recipient(each.addr_spec) for each in hidden]
        item.shown["importance"] = str(parsed["Importance"] or "normal").lower()
        return item

    def make_folder(self, address: str, name: str, *, inside: str = "") -> str:
        """Add a folder of a person, at the top or `inside` another, and return its id."""
        folders = self.made.setdefault(address.lower(), {})
        key = f"made {len(folders)}"
        folders[key] = (name, self.known_folder(address, inside) if inside else "")
        return folder_id(address, key)

    def known_folder(self, address: str, named: str) -> str:
        """Return the key that `in_folder` uses for a folder, from its well-known name in any
        language or its id.

        Raise KeyError if the folder is unknown.
        """
        for folder in (*self.names, *self.made.get(address.lower(), {})):
            if (folder in NAMES and named.lower() == folder) or named == folder_id(address, folder):
                return folder
        raise KeyError(named)

    def folders(self, address: str, *, inside: str = "") -> list[dict[str, Any]]:
        return [
            self.folder(address, folder)
            for folder, (_, parent) in self._tree(address).items()
            if parent == inside
        ]

    def folder(self, address: str, folder: str) -> dict[str, Any]:
        items, tree = self.in_folder(address, folder), self._tree(address)
        return {
            "id": folder_id(address, folder),
            "displayName": tree[folder][0],
            "childFolderCount": sum(parent == folder for _, parent in tree.values()),
            "unreadItemCount": sum(not item.shown["isRead"] for item in items),
            "totalItemCount": len(items),
        }

    def _tree(self, address: str) -> dict[str, tuple[str, str]]:
        return {folder: (name, "") for folder, name in self.names.items()} | self.made.get(
            address.lower(), {}
        )


def as_recipient(address: str, name: str = "") -> dict[str, Any]:
    return {"emailAddress": {"address": address, **({"name": name} if name else {})}}


def folder_id(address: str, folder: str) -> str:
    return "AQMk" + hashlib.sha256(f"{address.lower()} {folder}".encode()).hexdigest() * 2


def topic_of(subject: str) -> str:
    return re.sub(r"(?i)^(re:\s*)+", "", subject)


def moment(value: str) -> datetime:
    return datetime.fromisoformat(value.replace("Z", "+00:00"))


def file_row(file: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in file.items() if name != "contentBytes"}


def _extend(item: Item, given: dict[str, Any]) -> None:
    for each in given.get("singleValueExtendedProperties") or []:
        item.extended[each["id"]] = each["value"]


def _preview(body: dict[str, str]) -> str:
    text = body["content"]
    if body["contentType"] == "html":
        text = re.sub(r"<style.*?</style>|<[^>]*>", " ", text).replace("&amp;", "&")
    return text[:255]


def _inner(message: Message) -> bytes:
    return b"Subject: inner\r\n\r\ninner\r\n"
