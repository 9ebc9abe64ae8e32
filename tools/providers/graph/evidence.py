"""Whether a mail has left: the search in Sent, and the state of the prepared draft."""

from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any

from tools.mail.message import lenient
from tools.mail.message.compose import MESSAGE_ID
from tools.providers.base import Envelope, StoredDraft
from tools.providers.errors import NotFound, NotPermitted, Refused
from tools.providers.graph.attachments import GraphAttachments
from tools.providers.graph.client import WRITE
from tools.providers.graph.mailbox import STATE, GraphMailbox, path_in, path_of
from tools.providers.graph.outgoing import (
    MARKER,
    RECEIPTS,
    Outgoing,
    differences,
    leads_elsewhere,
    parse_outgoing,
)
from tools.providers.graph.queries import quote_text
from tools.providers.notes import DraftNotes

BACK = ",".join(
    (
        STATE,
        "from,sender,subject,body,toRecipients,ccRecipients,bccRecipients,replyTo,importance",
        *RECEIPTS,
    )
)
AS_TEXT = 'outlook.body-content-type="text"'
OUR_MARK = f"singleValueExtendedProperties($filter=id eq '{MARKER}')"


class GraphEvidence:
    """The evidence in one mailbox. Our id of a mail is in its Message-ID or in a property of it."""

    def __init__(self, mailbox: GraphMailbox, attachments: GraphAttachments) -> None:
        self._mailbox = mailbox
        self._client = mailbox.client
        self._attachments = attachments

    @property
    def can_find_sent(self) -> bool:
        return self._mailbox.can_read

    def find_sent(self, message_id: str) -> str | None:
        if not MESSAGE_ID.fullmatch(message_id) or not self.can_find_sent:
            return None
        row = self._find_in_sent(message_id)
        return str(row.get("internetMessageId") or message_id) if row else None

    def differs_in_sent(self, message_id: str, envelope: Envelope) -> tuple[str, ...]:
        row = self._find_in_sent(message_id)
        if row is None:
            raise NotFound()
        outgoing = parse_outgoing(envelope.source, recipients=envelope.recipients)
        return tuple(self.compare(str(row["id"]), outgoing)[1])

    def is_unsent(self, prepared: DraftNotes) -> bool:
        if not prepared.version:
            return False
        try:
            state = self.read_state(prepared.draft)
        except Refused:
            return False
        return bool(state.get("isDraft")) and is_unchanged(state, prepared)

    def discard(self, prepared: DraftNotes) -> bool:
        return not self.was_sent(prepared.marker, prepared) and self.remove(prepared)

    def remove(self, prepared: DraftNotes) -> bool:
        """Remove the draft; return False if it may have left since the caller has looked.

        If the notes name only a marker, the answer to the draft's creation was lost, so remove every
        draft with that marker, and look again: one that leaves meanwhile is not among the drafts.
        """
        if not prepared.draft:
            marker = prepared.marker
            drafts = (
                list(self._find_marked("drafts", marker)) if MESSAGE_ID.fullmatch(marker) else []
            )
            removed = all(self._discard_unfinished(str(row["id"])) for row in drafts)
            return removed and not self.was_sent(marker, prepared)
        if not prepared.is_compared:
            return self._discard_unfinished(prepared.draft)
        return self.destroy(prepared) or not self.was_sent(prepared.marker, prepared)

    def destroy(self, prepared: DraftNotes) -> bool:
        """Destroy the draft permanently. DELETE would move it to Deleted Items, where its immutable
        id stays valid and an order still finds it.

        The address names the folder too: a draft that is on its way to Sent is not found there.
        https://learn.microsoft.com/en-us/graph/api/message-permanentdelete
        """
        if not self.is_unsent(prepared):
            return False
        place = path_in(str(prepared.folder), prepared.draft)
        try:
            answer = self._client.call("POST", f"{place}/permanentDelete", scope=WRITE)
        except Refused as error:
            if isinstance(error, NotPermitted):
                raise
            return False  # gone, on its way, or a cloud without this call: unknown
        return answer.status == HTTPStatus.NO_CONTENT

    def is_prepared(self, prepared: DraftNotes, draft: StoredDraft) -> bool:
        if prepared.draft and self._mailbox.find_message(draft.id) == path_of(prepared.draft):
            return True
        message_id = lenient.decode_text(lenient.headers(draft.source)["Message-ID"])
        return bool(prepared.marker) and message_id == prepared.marker

    def read_state(self, draft: str) -> dict[str, Any]:
        """Return the state of the draft. Raises NotFound."""
        found = self._client.get(path_of(draft), {"$select": STATE}).body
        return found if isinstance(found, dict) else {}

    def is_still_a_draft(self, prepared: DraftNotes) -> bool:
        """Return True if the draft is unsent, where it was compared; False if it may have left."""
        try:
            state = self.read_state(prepared.draft)
        except NotFound:
            return False
        is_in_place = prepared.folder in (None, state.get("parentFolderId"))
        return is_in_place and not self.may_have_left(state, prepared)

    def may_have_left(self, state: Mapping[str, Any], prepared: DraftNotes) -> bool:
        """Return True if this is no draft any more, or was moved after it was made, but not thrown
        away: its owner may be sending it, and until it has left it is still a draft.
        """
        folder = state.get("parentFolderId")
        if not state.get("isDraft"):
            return True
        if folder == (prepared.folder or self._mailbox.find_role("drafts")):
            return False
        return folder != self._mailbox.find_role("trash")

    def was_sent(self, message_id: str, prepared: DraftNotes) -> bool:
        """Return True if it may have left: it is in Sent, on its way or finally, or not where it
        was created.

        Without the id of the draft, everything with our marker is looked at, in all folders.
        """
        if prepared.draft:
            try:
                state = self.read_state(prepared.draft)
            except NotFound:
                return True
            if self.may_have_left(state, prepared):
                return True
        if not MESSAGE_ID.fullmatch(message_id):
            return False
        marked = self._find_marked("sentitems" if prepared.draft else "", message_id)
        return any(prepared.draft or self.may_have_left(row, prepared) for row in marked)

    def compare(self, message: str, outgoing: Outgoing) -> tuple[dict[str, Any], list[str]]:
        """Return the stored message and the names of its differences from the approved one."""
        read = self._read_back(message, outgoing)
        files = self._attachments.list_digests(path_of(message))
        return read, differences(outgoing, read, files)

    def _read_back(self, message: str, outgoing: Outgoing) -> dict[str, Any]:
        """Return the stored message.

        Microsoft's documentation says that every body is shown as HTML. If a text is, the message
        is read again as text. The HTML is checked too, because the text hides where a link leads.
        """
        read = dict(self._client.get(path_of(message), {"$select": BACK}).body)
        body = read.get("body") or {}
        if outgoing.html is not None or str(body.get("contentType")).lower() != "html":
            return read
        as_text = self._client.get(path_of(message), {"$select": BACK}, prefer=AS_TEXT).body
        same = as_text.get("changeKey") == read.get("changeKey")
        leads = leads_elsewhere(str(body.get("content")), outgoing.text)
        return dict(as_text) if same and not leads else read

    def _find_in_sent(self, message_id: str) -> dict[str, Any] | None:
        # A draft in Sent is on its way and may come back.
        return next(
            (row for row in self._find_marked("sentitems", message_id) if not row.get("isDraft")),
            None,
        )

    def _find_marked(self, folder: str, message_id: str) -> Iterator[dict[str, Any]]:
        """Yield the messages in a folder, or in all, that have our id, or another id with our mark.

        The rows are compared here, because a server that does not know a filter may return
        everything.
        """
        place = f"/mailFolders/{folder}" if folder else ""
        marked = f"singleValueExtendedProperties/Any(ep: ep/id eq '{MARKER}' and ep/value eq {quote_text(message_id)})"
        for condition in (f"internetMessageId eq {quote_text(message_id)}", marked):
            params: dict[str, str | int] = {
                "$filter": condition,
                "$select": STATE,
                "$expand": OUR_MARK,
                "$top": 5,
            }
            for row in self._client.rows(f"{place}/messages", params, enough=5):
                if message_id in (row.get("internetMessageId"), *_marks(row)):
                    yield row

    def _discard_unfinished(self, draft: str) -> bool:
        """Delete a draft that was never compared, so no order names it; return False if it may have
        left.

        The mailbox owner finds it in Deleted Items. The address names the folder, as in `destroy`.
        """
        try:
            state = self.read_state(draft)
            if self.may_have_left(state, DraftNotes(draft=draft)):
                return False
            place = path_in(str(state.get("parentFolderId")), draft)
            self._client.call("DELETE", place, scope=WRITE)
        except NotFound:
            return False
        return True


def is_unchanged(state: Mapping[str, Any], prepared: DraftNotes) -> bool:
    return (state.get("changeKey"), state.get("parentFolderId")) == (
        prepared.version,
        prepared.folder,
    )


def _marks(row: Mapping[str, Any]) -> list[str]:
    return [str(each.get("value")) for each in row.get("singleValueExtendedProperties") or []]
