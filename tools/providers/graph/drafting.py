"""Drafts: new ones, or Graph's own reply to a message, so that Exchange keeps the conversation."""

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from email import policy
from email.parser import BytesHeaderParser
from typing import Any, Literal
from urllib.parse import quote

from tools.providers.base import NOT_A_DRAFT, StoredDraft
from tools.providers.errors import NotFound, ProviderError, Refused, Unsupported
from tools.providers.graph.mailbox import addresses
from tools.providers.graph.outgoing import INLINE_LIMIT, File, Outgoing, parsed
from tools.providers.graph.queries import quoted
from tools.providers.graph.reading import GraphReading

SCOPE = "Mail.ReadWrite"
STATE = "id,isDraft,changeKey,parentFolderId,internetMessageId"
PIECE = 10 * 320 * 1024  # of an upload: a multiple of 320 KiB, under 4 MB
NOT_READABLE = "Not everybody in Bcc of this draft can be read: look at it in the mailbox."
ADDRESS = re.compile(r"[^\s,;<>]+@[^\s,;<>]+")
GONE = "The draft is gone, or was changed by its person: list_drafts names what is there."


class GraphDrafts(GraphReading):
    """A mailbox with drafts; it changes the drafts folder only."""

    def save_draft(self, source: bytes, *, replaces: str | None = None) -> StoredDraft:
        old = self._draft(replaces) if replaces is not None else None
        outgoing = parsed(source)
        draft = self._created(
            outgoing, kind="reply" if outgoing.in_reply_to else "send", original=""
        )
        with self._finished_or_gone(draft):
            self._filled(draft, outgoing)
            stored = self.read_draft(self._handle(draft))
        if old is not None:
            self._client.call("DELETE", self._at(str(old["id"])), scope=SCOPE)
        return stored

    def read_draft(self, draft_id: str) -> StoredDraft:
        state = self._draft(draft_id)
        source = self._client.get(f"{self._at(str(state['id']))}/$value", raw=True).content
        return StoredDraft(
            id=draft_id,
            number=None,
            source=_with_bcc(source, state),
            version=str(state.get("changeKey") or ""),
        )

    def delete_draft(self, draft_id: str) -> None:
        self._client.call("DELETE", self._at(str(self._draft(draft_id)["id"])), scope=SCOPE)

    def id_of_number(self, number: int, *, folder: str) -> str:
        raise NotFound()  # messages have no numbers here

    def _draft(self, draft_id: str) -> dict[str, Any]:
        """Return the state of a draft in the drafts folder. Raises the same errors as
        `save_draft`.
        """
        try:
            state = self._client.get(
                self._path(draft_id), {"$select": f"{STATE},bccRecipients"}
            ).body
        except NotFound:
            raise NotFound(GONE) from None
        if not state.get("isDraft"):
            raise Refused("not_a_draft", NOT_A_DRAFT)
        if state.get("parentFolderId") != self._drafts_folder():
            raise NotFound(GONE)  # the mailbox owner deleted it
        return dict(state)

    def _created(
        self, outgoing: Outgoing, *, kind: Literal["send", "reply", "forward"], original: str
    ) -> str:
        """Create an empty or half-filled draft of the right sort; return its id in Graph."""
        if kind == "send" or (kind == "forward" and not original):
            body = {
                **outgoing.as_json(),
                "internetMessageId": outgoing.message_id,
                **outgoing.marked(),
            }
            return self._id_of(self._client.call("POST", "/messages", scope=SCOPE, json=body).body)
        path = self._path(original) if original else self._answered_path(outgoing.in_reply_to)
        action = "createForward" if kind == "forward" else "createReply"
        draft = self._id_of(
            self._client.call(
                "POST", f"{path}/{action}", scope=SCOPE, json={"message": outgoing.marked()}
            ).body
        )
        # Replace the recipients and the text that Graph put there by the approved ones; `[]`
        # removes a list.
        everybody: dict[str, Any] = {"toRecipients": [], "ccRecipients": [], "bccRecipients": []}
        body = {
            **everybody,
            **outgoing.as_json(),
            "internetMessageId": outgoing.message_id,
            **outgoing.marked(),
        }
        with self._finished_or_gone(draft):
            self._client.call("PATCH", self._at(draft), scope=SCOPE, json=body)
        return draft

    @contextmanager
    def _finished_or_gone(self, draft: str) -> Iterator[None]:
        """Delete the draft if filling it fails, so that nobody finds and sends an
        incomplete mail.
        """
        try:
            yield
        except ProviderError:
            with suppress(ProviderError):
                self._client.call("DELETE", self._at(draft), scope=SCOPE)
            raise

    def _filled(self, draft: str, outgoing: Outgoing) -> None:
        """Make the attachments equal to the approved ones: delete those that Graph added, add the
        missing.
        """
        path = f"{self._at(draft)}/attachments"
        missing = list(outgoing.files)
        for row in self._files(path):
            file = next((each for each in missing if self._is(each, row, path)), None)
            if file is None:
                self._client.call("DELETE", f"{path}/{quoted_id(row)}", scope=SCOPE)
            else:
                missing.remove(file)
        for file in missing:
            if len(file.content) < INLINE_LIMIT:
                self._client.call("POST", path, scope=SCOPE, json=file.as_json())
            else:
                self._uploaded(path, file)

    def _is(self, file: File, row: dict[str, Any], path: str) -> bool:
        if row.get("name") != file.name or (row.get("isInline") or False) is not bool(
            file.content_id
        ):
            return False
        if str(row.get("@odata.type") or "").endswith("itemAttachment"):
            return False  # the approved bytes go as a file
        return self._content(f"{path}/{quoted_id(row)}", is_mail=False) == file.content

    def _uploaded(self, path: str, file: File) -> None:
        total = len(file.content)
        item = {
            "attachmentType": "file",
            "name": file.name,
            "size": total,
            "contentType": file.type,
        }
        if file.content_id:
            item |= {"isInline": True, "contentId": file.content_id}
        answer = self._client.call(
            "POST", f"{path}/createUploadSession", scope=SCOPE, json={"AttachmentItem": item}
        )
        for first in range(0, total, PIECE):
            self._client.upload(
                str(answer.body["uploadUrl"]),
                file.content[first : first + PIECE],
                first=first,
                total=total,
            )

    def _answered_path(self, message_id: str) -> str:
        """Return the path of the message that a draft answers.

        Graph keeps threading headers only in answers that it created itself.
        """
        rows = self._client.rows(
            "/messages",
            {
                "$filter": f"internetMessageId eq {quoted(message_id)}",
                "$select": "id,isDraft",
                "$top": 5,
            },
            enough=5,
        )
        found = next((str(row["id"]) for row in rows if not row.get("isDraft")), None)
        if found is None:
            raise Unsupported(
                "unsupported", "The mail that this answers is not in the mailbox any more."
            )
        return self._at(found)

    def _at(self, graph_id: str) -> str:
        return f"/messages/{quote(graph_id, safe='')}"

    def _id_of(self, body: Any) -> str:
        return str(body["id"])


def _with_bcc(source: bytes, state: dict[str, Any]) -> bytes:
    """Return the bytes with all recipients of a blind copy: it is not documented whether Graph puts
    Bcc into them.
    """
    header = BytesHeaderParser(policy=policy.default).parsebytes(source)["Bcc"]
    named = {address.addr_spec.lower() for address in header.addresses} if header else set()
    wanted = addresses(state, "bccRecipients")
    nameless = len(wanted) < len(state.get("bccRecipients") or [])
    if not nameless and named >= {address.lower() for address in wanted}:
        return source
    if nameless or header or not all(ADDRESS.fullmatch(address) for address in wanted):
        raise Refused("refused", NOT_READABLE)
    return f"Bcc: {', '.join(wanted)}\r\n".encode() + source


def quoted_id(row: dict[str, Any]) -> str:
    return quote(str(row["id"]), safe="")
