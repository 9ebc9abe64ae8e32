"""Handing a message over, and finding out afterwards whether it left.

The permissions and the approved mail decide between two ways. With Mail.ReadWrite, a draft is
created, read back, compared with the approved mail, and sent by its id; as long as it is there
unchanged, it did not go out. Without it, or if no copy is to be kept, one call creates and sends at
once.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from hashlib import sha256
from http import HTTPStatus
from typing import Any, Literal
from urllib.parse import quote

from django.conf import settings

from accounts.connect.microsoft import DRAFT
from tools.mail.message.compose import MESSAGE_ID
from tools.providers import lenient
from tools.providers.base import Envelope, Handover, Receipt, StoredDraft
from tools.providers.errors import NotFound, NotPermitted, OutcomeUnknown, ProviderError, Refused
from tools.providers.graph.answers import REQUEST_LIMIT
from tools.providers.graph.drafting import SCOPE, STATE, GraphDrafts, quoted_id
from tools.providers.graph.mailbox import READS
from tools.providers.graph.outgoing import (
    MARKER,
    Outgoing,
    as_recipients,
    differences,
    is_comment_alone,
    leads_elsewhere,
    length,
    parsed,
)
from tools.providers.graph.queries import quoted

BACK = "id,subject,body,toRecipients,ccRecipients,bccRecipients,importance,isDraft,changeKey,parentFolderId"
AS_TEXT = 'outlook.body-content-type="text"'
# PidTagLastVerbExecuted: Outlook shows it as answered or forwarded (MS-OXOMSG 2.2.1.38).
LAST_VERB = "Integer 0x1081"
# Exchange reads a comment as HTML if the answer is HTML; for an answer in plain text this is not
# documented.
UNCERTAIN = (
    "Microsoft 365 may read this comment as HTML, so it is not certain what would arrive. Write it in one line, without"
    f" < and &, or connect the mailbox again with the permission {DRAFT}."
)
VERBS = {"answered": "102", "forwarded": "104"}


OUR_MARK = f"singleValueExtendedProperties($filter=id eq '{MARKER}')"


class GraphSending(GraphDrafts):
    @property
    def writes_quote(self) -> bool:
        """Return True if Microsoft writes the quote of answers and forwards: then it takes only the
        comment.
        """
        return DRAFT not in self._scopes

    def check(self, envelope: Envelope) -> None:
        self._at_once(envelope, parsed(envelope.source, recipients=envelope.recipients))

    def send(self, envelope: Envelope, handover: Handover) -> Receipt:
        outgoing = parsed(envelope.source, recipients=envelope.recipients)
        at_once = self._at_once(envelope, outgoing)
        if at_once is None:
            self._by_draft(envelope, outgoing, handover)
        else:
            action, body = at_once
            self._client.hand_over(
                f"/{action}"
                if action == "sendMail"
                else f"{self._path(envelope.original)}/{action}",
                body,
                wire_started=handover.wire_started,
                answer_seconds=settings.MAILHUB_WIRE_TIMEOUT_SECONDS,
            )
        return Receipt(at=datetime.now(UTC))

    def find_sent(self, message_id: str) -> str | None:
        if not MESSAGE_ID.fullmatch(message_id) or not self._scopes & READS:
            return None
        row = self._in_sent(message_id)
        return str(row.get("internetMessageId") or message_id) if row else None

    def differs_in_sent(self, message_id: str, envelope: Envelope) -> tuple[str, ...]:
        row = self._in_sent(message_id)
        if row is None:
            raise NotFound()
        outgoing = parsed(envelope.source, recipients=envelope.recipients)
        wrong = self._differences(str(row["id"]), outgoing)[1]
        if self._is_written_there(envelope, outgoing):
            wrong = [name for name in wrong if name in ("to", "cc", "bcc")]
        return tuple(wrong)

    def _is_written_there(self, envelope: Envelope, outgoing: Outgoing) -> bool:
        """Return True if Microsoft may have written subject and quote: then only recipients can be
        compared.
        """
        return envelope.kind != "send" and is_comment_alone(outgoing, envelope)

    def _in_sent(self, message_id: str) -> dict[str, Any] | None:
        # A draft in Sent is on its way and may come back.
        return next(
            (row for row in self._marked("sentitems", message_id) if not row.get("isDraft")), None
        )

    def is_unsent(self, prepared: Mapping[str, Any]) -> bool:
        if not prepared.get("version"):
            return False
        try:
            state = self._state(prepared)
        except Refused:
            return False
        return bool(state.get("isDraft")) and _unchanged(state, prepared)

    def discard(self, prepared: Mapping[str, Any]) -> None:
        """Remove the draft. If the notes name only a marker, the answer to the draft's creation was
        lost, so remove every draft with that marker.
        """
        if "draft" not in prepared:
            marker = str(prepared.get("marker", ""))
            drafts = list(self._marked("drafts", marker)) if MESSAGE_ID.fullmatch(marker) else []
            for row in drafts:
                self._discard_unfinished(str(row["id"]))
        elif "version" not in prepared:
            self._discard_unfinished(str(prepared["draft"]))
        else:
            self.destroy(prepared)

    def destroy(self, prepared: Mapping[str, Any]) -> bool:
        """Destroy the draft permanently. DELETE would move it to Deleted Items, where its immutable
        id stays valid and an order still finds it.

        The address names the folder too: a draft that is on its way to Sent is not found there.
        https://learn.microsoft.com/en-us/graph/api/message-permanentdelete
        """
        if not self.is_unsent(prepared):
            return False
        folder, draft = (quote(str(prepared[name]), safe="") for name in ("folder", "draft"))
        try:
            answer = self._client.call(
                "POST", f"/mailFolders/{folder}/messages/{draft}/permanentDelete", scope=SCOPE
            )
        except Refused as error:
            if isinstance(error, NotPermitted):
                raise
            return False  # gone, on its way, or a cloud without this call: unknown
        return answer.status == HTTPStatus.NO_CONTENT

    def is_prepared(self, prepared: Mapping[str, Any], draft: StoredDraft) -> bool:
        if "draft" in prepared and self._path(draft.id) == self._at(str(prepared["draft"])):
            return True
        marker = str(prepared.get("marker", ""))
        return (
            bool(marker) and lenient.decoded(lenient.headers(draft.source)["Message-ID"]) == marker
        )

    def _discard_unfinished(self, draft: str) -> None:
        """Delete a draft that was never compared, so no order names it.

        The mailbox owner finds it in Deleted Items.
        """
        try:
            state = self._state({"draft": draft})
            # A draft in Sent: the mailbox owner is sending it.
            if state.get("isDraft") and state.get("parentFolderId") != self._id_of_role("sent"):
                self._client.call("DELETE", self._at(draft), scope=SCOPE)
        except NotFound:
            return

    def save_sent_copy(self, source: bytes, message_id: str) -> None:
        """Do nothing, because Exchange keeps the copy itself."""

    def mark(self, message_id: str, flag: Literal["answered", "forwarded"]) -> None:
        body = {"singleValueExtendedProperties": [{"id": LAST_VERB, "value": VERBS[flag]}]}
        self._client.call("PATCH", self._path(message_id), scope=SCOPE, json=body)

    def _by_draft(self, envelope: Envelope, outgoing: Outgoing, handover: Handover) -> None:
        """Send the draft of an earlier attempt if it is still the approved one, else a new one that
        was read back and compared.
        """
        left = self._left_from_before(outgoing, handover)
        draft = left or self._prepared(envelope, outgoing, handover)
        try:
            self._client.hand_over(
                f"{self._at(draft)}/send",
                None,
                wire_started=handover.wire_started,
                answer_seconds=settings.MAILHUB_WIRE_TIMEOUT_SECONDS,
            )
        except Refused:
            if left and not self._is_still_a_draft(handover.prepared):
                raise OutcomeUnknown(
                    "draft_gone", "The prepared draft went away while it was sent."
                ) from None
            raise

    def _is_still_a_draft(self, prepared: Mapping[str, Any]) -> bool:
        """Return True if a refusal of the second attempt is about the draft itself.

        If the draft is gone, the first attempt may have been carried out late.
        """
        try:
            return bool(self._state(prepared).get("isDraft"))
        except ProviderError:
            return False

    def _marked(self, folder: str, message_id: str) -> Iterator[dict[str, Any]]:
        """Yield the messages in a folder that have our id, or another id with our mark.

        The rows are compared here, because a server that does not know a filter may return
        everything.
        """
        marked = f"singleValueExtendedProperties/Any(ep: ep/id eq '{MARKER}' and ep/value eq {quoted(message_id)})"
        for condition in (f"internetMessageId eq {quoted(message_id)}", marked):
            params: dict[str, str | int] = {
                "$filter": condition,
                "$select": "id,internetMessageId,isDraft",
                "$expand": OUR_MARK,
                "$top": 5,
            }
            for row in self._client.rows(f"/mailFolders/{folder}/messages", params, enough=5):
                if message_id in (row.get("internetMessageId"), *_marks(row)):
                    yield row

    def _left_from_before(self, outgoing: Outgoing, handover: Handover) -> str | None:
        """Return the draft that an earlier attempt has compared; remove one that was not compared.

        If the draft was changed, the mailbox owner did that, and it is not the approved mail: raise
        Refused. If it is gone, somebody else may have sent it: raise OutcomeUnknown, as after a
        handover.
        """
        prepared = handover.prepared
        if "version" not in prepared:
            if prepared:
                self._take_away(outgoing.message_id, handover)
            return None
        try:
            state = self._state(prepared)
        except NotFound:
            handover.wire_started()
            raise OutcomeUnknown(
                "draft_gone", "The prepared draft is gone, and it is not known why."
            ) from None
        if not state.get("isDraft"):
            handover.wire_started()
            raise OutcomeUnknown("draft_gone", "The prepared draft is no draft any more.")
        if not _unchanged(state, prepared):
            raise Refused(
                "draft_changed", "The prepared draft was changed or moved in the mailbox."
            )
        return str(prepared["draft"])

    def _take_away(self, message_id: str, handover: Handover) -> None:
        """Remove the unfinished draft of an earlier attempt, unless the mailbox owner has sent it.

        It may have been incomplete when it was sent, so raise OutcomeUnknown then.
        """
        prepared = dict(handover.prepared)
        if self._was_sent(message_id, prepared):
            handover.wire_started()
            raise OutcomeUnknown(
                "draft_gone", "What was prepared is gone, or was sent from the mailbox unfinished."
            )
        handover.keep({"marker": message_id})  # that it is gone from here on is our own doing
        self.discard(prepared)

    def _was_sent(self, message_id: str, prepared: Mapping[str, Any]) -> bool:
        """Return True if it may have left: it is in Sent, on its way or finally, or not where it
        was created.
        """
        if "draft" in prepared:
            try:
                state = self._state(prepared)
            except NotFound:
                return True
            if not state.get("isDraft"):
                return True
        return any(True for _ in self._marked("sentitems", message_id))

    def _prepared(self, envelope: Envelope, outgoing: Outgoing, handover: Handover) -> str:
        notes: dict[str, Any] = {"marker": outgoing.message_id}
        handover.keep(notes)  # the marker first: a draft with an unknown id is found by its mark
        draft = self._created(outgoing, kind=envelope.kind, original=envelope.original)
        notes |= {"draft": draft, "source": sha256(envelope.source).hexdigest()}
        handover.keep(notes)
        try:
            self._filled(draft, outgoing)
            read, wrong = self._differences(draft, outgoing)
        except Refused:
            if self._is_still_a_draft(notes):
                raise
            read, wrong = {}, []
        if not read.get("isDraft"):  # its person may have sent it before it was complete
            handover.wire_started()
            raise OutcomeUnknown("draft_gone", "The draft went away while it was prepared.")
        if wrong:
            raise Refused(
                "readback_mismatch",
                f"What Microsoft 365 made of it differs in: {', '.join(wrong)}.",
            )
        handover.keep(
            {**notes, "version": read.get("changeKey"), "folder": read.get("parentFolderId")}
        )
        return draft

    def _differences(self, message: str, outgoing: Outgoing) -> tuple[dict[str, Any], list[str]]:
        """Return the stored message and the names of its differences from the approved one."""
        read = self._read_back(message, outgoing)
        path = f"{self._at(message)}/attachments"
        files = [
            (
                str(row.get("name")),
                sha256(self._content(f"{path}/{quoted_id(row)}", is_mail=False)).hexdigest(),
            )
            for row in self._files(path)
        ]
        return read, differences(outgoing, read, files)

    def _read_back(self, draft: str, outgoing: Outgoing) -> dict[str, Any]:
        """Return the stored draft.

        Microsoft's documentation says that every body is shown as HTML. If a text is, the draft is
        read again as text. The HTML is checked too, because the text hides where a link leads.
        """
        read = dict(self._client.get(self._at(draft), {"$select": BACK}).body)
        body = read.get("body") or {}
        if outgoing.html is not None or str(body.get("contentType")).lower() != "html":
            return read
        as_text = self._client.get(self._at(draft), {"$select": BACK}, prefer=AS_TEXT).body
        same = as_text.get("changeKey") == read.get("changeKey")
        leads = leads_elsewhere(str(body.get("content")), outgoing.text)
        return dict(as_text) if same and not leads else read

    def _at_once(self, envelope: Envelope, outgoing: Outgoing) -> tuple[str, dict[str, Any]] | None:
        """Return the endpoint that creates and sends in one call and its body, or None if a draft
        is needed.

        Raises Refused for a mail that can go neither way. The marker is included, because otherwise
        the mail could not be found in Sent.
        """
        action, body = None, outgoing.as_json()
        if envelope.kind == "send" and (self.writes_quote or not envelope.save_to_sent):
            message = {**outgoing.as_json(), **outgoing.attached(), **outgoing.marked()}
            action = "sendMail"
            body = {"message": message, "saveToSentItems": envelope.save_to_sent}
        elif is_comment_alone(outgoing, envelope) and envelope.kind == "reply":
            action = "replyAll" if envelope.reply_all else "reply"
            body = {
                "comment": envelope.comment,
                "message": {**outgoing.attached(), **outgoing.marked()},
            }
        elif is_comment_alone(outgoing, envelope):
            # Graph adds the attachments of the original itself.
            body = {
                "toRecipients": as_recipients(envelope.recipients),
                "message": outgoing.marked(),
            }
            action, body = (
                "forward",
                body | ({"comment": envelope.comment} if envelope.comment else {}),
            )
        elif self.writes_quote:
            # It was approved with a quote of ours, or it answers without an original: both need the
            # permission.
            is_raw = bool(envelope.comment) and envelope.comment.strip() == outgoing.text.strip()
            raise NotPermitted(DRAFT, UNCERTAIN if is_raw else "")
        if length(body) > REQUEST_LIMIT:
            raise Refused(
                "too_large", f"Microsoft 365 takes at most {REQUEST_LIMIT:,} bytes at once."
            )
        return (action, body) if action else None

    def _state(self, prepared: Mapping[str, Any]) -> dict[str, Any]:
        found = self._client.get(self._at(str(prepared["draft"])), {"$select": STATE}).body
        return found if isinstance(found, dict) else {}


def _unchanged(state: Mapping[str, Any], prepared: Mapping[str, Any]) -> bool:
    return (state.get("changeKey"), state.get("parentFolderId")) == (
        prepared["version"],
        prepared.get("folder"),
    )


def _marks(row: Mapping[str, Any]) -> list[str]:
    return [str(each.get("value")) for each in row.get("singleValueExtendedProperties") or []]
