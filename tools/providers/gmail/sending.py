"""Sending through Gmail: a draft of the approved bytes is read back, compared, and sent once by its
id.

The draft proves that nothing went out: as long as it is there unchanged, it was not sent. It is
sent by its id only, because bytes in the request would change it and so destroy the proof.
"""

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from email import message_from_bytes, policy
from email.message import EmailMessage
from email.message import Message as Block
from hashlib import sha256
from typing import Any, Literal

from tools.mail.message.compose import REPLY_PREFIX
from tools.providers import lenient
from tools.providers.base import Envelope, Handover, Receipt, StoredDraft
from tools.providers.errors import (
    NotFound,
    NotSent,
    OutcomeUnknown,
    ProviderError,
    Refused,
    Unsupported,
)
from tools.providers.gmail import payload, queries
from tools.providers.gmail.drafting import GmailDrafts, refuse_too_large
from tools.providers.gmail.mailbox import DRAFT_ID, message_part

STAMP_BYTES = 64  # more than the Date header needs, which is added in front when the mail leaves
LOOKED_AT = 20  # of the newest in Sent, besides the search result, because the search index may lag
ID_HEADERS = ("Message-ID", "X-Google-Original-Message-ID", *lenient.ORIGINAL_ID_HEADERS)
# Gmail may give a mail from its API another Message-ID and keep no copy of ours; it leaves headers
# that it does not know. https://github.com/FlowCrypt/flowcrypt-browser/issues/4273,
# https://github.com/gauteh/lieer/issues/198
MARK = "X-Mailhub-Mark"
COMPARED = ("Subject", "In-Reply-To", "References", "Reply-To", MARK)
MISMATCH = "What Gmail holds as the draft is not what was approved."
CHANGED = "The prepared draft was changed in the mailbox before it was sent."
KEEPS_IT = "Gmail keeps a copy of everything it sends."


class GmailSending(GmailDrafts):
    """A mailbox that sends mail and finds out whether it left."""

    def check(self, envelope: Envelope) -> None:
        refuse_too_large(len(_addressed(envelope, marker="")) + STAMP_BYTES)

    def send(self, envelope: Envelope, handover: Handover) -> Receipt:
        """Use the draft of an earlier attempt or create one, read it back, compare it, and send it
        once.
        """
        if not envelope.save_to_sent:
            raise Unsupported("refused", KEEPS_IT)
        marker = lenient.decoded(lenient.headers(envelope.source)["Message-ID"])
        try:
            notes = self._prepared(envelope, handover, marker)
            self._compare(
                _addressed(envelope, marker), notes, made_before="draft" in handover.prepared
            )
        except _Gone:
            handover.wire_started()  # not by this try, but it may have gone out
            return self._sent_by_another(marker, envelope)
        try:
            answer = self._client.send(
                "drafts.send",
                lambda users: users.drafts().send(userId="me", body={"id": notes["draft"]}),
                wire_started=handover.wire_started,
            )
        except NotFound:
            return self._sent_by_another(marker, envelope)
        return Receipt(at=datetime.now(UTC), reference=str((answer or {}).get("id", "")))

    def find_sent(self, message_id: str) -> str | None:
        """Search by Message-ID, then look in the newest of Sent for our mark or a header with the
        id.
        """
        found = self._in_sent(message_id)
        return found[1] if found else None

    def differs_in_sent(self, message_id: str, envelope: Envelope) -> tuple[str, ...]:
        found = self._in_sent(message_id)
        if found is None:
            raise NotFound()
        raw = self._message(found[0], fmt="raw", patient=False).get("raw", "")
        is_, should_be = (
            _by_name(source) for source in (payload.decoded(raw), _addressed(envelope, message_id))
        )
        return tuple(name for name in should_be if is_[name] != should_be[name])

    def _in_sent(self, message_id: str) -> tuple[str, str] | None:
        """Return Gmail's id of the message in Sent, and the Message-ID that it shows."""
        if not lenient.REFERENCE.fullmatch(message_id):
            raise Refused("invalid_message_id")
        query = queries.message_id_term(message_id)
        for build in (
            lambda users: users.messages().list(
                userId="me", labelIds=["SENT"], q=query, maxResults=LOOKED_AT
            ),
            lambda users: users.messages().list(
                userId="me", labelIds=["SENT"], maxResults=LOOKED_AT
            ),
        ):
            answer = self._client.read("messages.list", build, patient=False)
            found = self._marked([row["id"] for row in answer.get("messages", ())], message_id)
            if found:
                return found
        return None

    def is_unsent(self, prepared: Mapping[str, Any]) -> bool:
        if "draft" not in prepared:
            return False
        try:
            draft = self._draft(prepared["draft"], fmt="minimal", patient=False)
        except Refused:
            return False
        return bool(draft["message"]["id"] == prepared["message"])

    def discard(self, prepared: Mapping[str, Any]) -> None:
        """Remove the draft; one that the mailbox owner has changed stays, because it is theirs."""
        notes = dict(prepared)
        if "draft" not in notes:
            notes |= self._lost_draft(str(notes.get("marker", ""))) or {}
        self.destroy(notes)

    def destroy(self, prepared: Mapping[str, Any]) -> bool:
        """Delete the draft. Gmail deletes it permanently, so an order that names it finds nothing.

        https://developers.google.com/workspace/gmail/api/reference/rest/v1/users.drafts/delete
        """
        if not self.is_unsent(prepared):
            return False
        try:
            self._client.write(
                "drafts.delete",
                lambda users: users.drafts().delete(userId="me", id=prepared["draft"]),
            )
        except NotFound:
            return False  # sent or deleted in between: the result is unknown
        return True

    def is_prepared(self, prepared: Mapping[str, Any], draft: StoredDraft) -> bool:
        """Return True if the ids match, by draft and message or by message only.

        A draft whose creation was not confirmed is recognised by its mark.
        """
        named = DRAFT_ID.fullmatch(draft.id)
        if draft.id == prepared.get("message") or (named and named[1] == prepared.get("draft")):
            return True
        marker = str(prepared.get("marker", ""))
        return bool(marker) and lenient.decoded(lenient.headers(draft.source)[MARK]) == _mark_of(
            marker
        )

    def save_sent_copy(self, source: bytes, message_id: str) -> None:
        """Do nothing, because Gmail keeps the copy itself."""

    def mark(self, message_id: str, flag: Literal["answered", "forwarded"]) -> None:
        """Check the id only: Gmail shows the conversation, so there is no flag to set."""
        message_part(message_id)

    def _prepared(self, envelope: Envelope, handover: Handover, marker: str) -> dict[str, Any]:
        """Return the notes on the draft.

        If the notes name a marker but no draft, the answer to the draft's creation was lost.
        """
        notes = dict(handover.prepared)
        if "draft" in notes:
            return notes
        found = self._lost_draft(marker) if "marker" in notes else None
        if found is None:
            if "marker" in notes and self.find_sent(marker):
                raise _Gone  # its person has sent it
            handover.keep({"marker": marker})
            stored = self._put(_addressed(envelope, marker), thread=self._thread(envelope))
            found = {"draft": stored["id"], "message": stored["message"]["id"]}
        notes = {"marker": marker, **found}
        handover.keep(notes)
        return notes

    def _compare(self, wanted: bytes, notes: Mapping[str, Any], *, made_before: bool) -> None:
        try:
            stored = self._draft(notes["draft"], fmt="raw", patient=False)
        except NotFound:
            raise _Gone from None
        source = payload.decoded(stored["message"].get("raw", ""))
        if made_before and stored["message"]["id"] != notes["message"]:
            raise Refused("draft_changed", CHANGED)
        if source != wanted and _content(source) != _content(wanted):
            raise Refused("readback_mismatch", MISMATCH)

    def _thread(self, envelope: Envelope) -> str:
        """Return the conversation that the mail answers in, or an empty string; its headers then
        keep it together.

        The bytes decide whether it is an answer, because a mail that a reviewer edited no longer
        has the kind of one. If the subject differs from the original's, Gmail adds the mail to no
        conversation (https://developers.google.com/workspace/gmail/api/guides/threads).
        """
        block = lenient.headers(envelope.source)
        if not block["In-Reply-To"]:
            return ""
        named = envelope.original or self._parent(block, patient=False).get("id", "")
        try:
            original = self._message(
                message_part(named),
                fmt="metadata",
                fields="threadId,payload(headers)",
                patient=False,
            )
        except NotFound:
            return ""
        same = _topic(payload.headers(original.get("payload", {}))) == _topic(block)
        return str(original.get("threadId", "")) if same else ""

    def _sent_by_another(self, marker: str, envelope: Envelope) -> Receipt:
        """Return the receipt of a draft that is gone: the owner sent or deleted it. It is never
        created again.

        If the lookup fails, only the lookup certainly sent nothing. It says nothing about the mail,
        so the result is OutcomeUnknown.
        """
        try:
            found = self.find_sent(marker)
            changed = self.differs_in_sent(marker, envelope) if found else ()
        except NotSent:
            raise OutcomeUnknown(
                "draft_gone", "The prepared draft is gone, and Sent could not be looked at."
            ) from None
        if found is None:
            raise OutcomeUnknown(
                "draft_gone", "The prepared draft is gone and the mail is not in Sent."
            )
        return Receipt(at=datetime.now(UTC), changed=changed)

    def _lost_draft(self, marker: str) -> dict[str, Any] | None:
        """Return a draft whose creation was not confirmed, from the newest ones."""
        if not marker:
            return None
        answer = self._client.read(
            "drafts.list",
            lambda users: users.drafts().list(userId="me", maxResults=LOOKED_AT),
            patient=False,
        )
        drafts = {row["message"]["id"]: row["id"] for row in answer.get("drafts", ())}
        found = self._marked(list(drafts), marker)
        return {"draft": drafts[found[0]], "message": found[0]} if found else None

    def _marked(self, ids: list[str], marker: str) -> tuple[str, str] | None:
        """Return the first message that has our mark or the id itself, with the Message-ID that it
        shows.
        """
        if not ids:
            return None
        answers = self._client.each("messages.get", _get_markers, ids, again=True)
        for message_id, answer in zip(ids, answers, strict=True):
            if isinstance(answer, NotFound):
                continue
            if isinstance(answer, ProviderError):
                raise answer
            block = payload.headers(answer.get("payload", {}))
            named = any(marker == lenient.decoded(block[name]) for name in ID_HEADERS)
            if named or lenient.decoded(block[MARK]) == _mark_of(marker):
                return message_id, lenient.decoded(block["Message-ID"]) or marker
        return None


class _Gone(Exception):
    """The prepared draft is no longer there."""


def _topic(block: Block) -> str:
    """Return the subject without reply prefixes."""
    return REPLY_PREFIX.sub("", " ".join(lenient.decoded(block["Subject"]).split()))


def _mark_of(message_id: str) -> str:
    """Return the mark that identifies the mail. The mark travels with the mail, so it is a hash."""
    return sha256(message_id.encode()).hexdigest()[:32]


def _addressed(envelope: Envelope, marker: str) -> bytes:
    """Return the approved bytes with our mark and the blind copies in front.

    Gmail sends to the addresses in the headers, and removes Bcc.
    """
    parsed = message_from_bytes(envelope.source, policy=policy.default)
    shown = {address.lower() for header in ("To", "Cc") for address in _addresses(parsed, header)}
    hidden = [address for address in envelope.recipients if address.lower() not in shown]
    head = f"{MARK}: {_mark_of(marker)}\r\n"
    if hidden:
        head += "Bcc: " + ",\r\n ".join(hidden) + "\r\n"
    return head.encode("ascii") + envelope.source


def _content(source: bytes) -> tuple[Any, ...]:
    """Return the values that must be the same in the draft: all recipients, the headers, and every
    part.

    Gmail may fold headers again, add its own in front, and change the Message-ID. It may not change
    these values.
    """
    parsed = message_from_bytes(source, policy=policy.default)
    everybody = Counter(
        address.lower() for header in ("To", "Cc", "Bcc") for address in _addresses(parsed, header)
    )
    parts = [
        (
            part.get_content_type(),
            part.get_filename() or "",
            part.get_content_disposition() or "",
            _digest(part),
        )
        for part in parsed.walk()
        if not part.is_multipart()
    ]
    headers = [" ".join(str(parsed[name] or "").split()) for name in COMPARED]
    return (
        everybody,
        _addresses(parsed, "From"),
        _addresses(parsed, "To"),
        _addresses(parsed, "Cc"),
        headers,
        parts,
    )


def _by_name(source: bytes) -> dict[str, Any]:
    """Return the parts of a message that a recipient sees, under the names that people read."""
    parsed = message_from_bytes(source, policy=policy.default)
    everybody, sender, *_, parts = _content(source)
    return {
        "from": sender,
        "recipients": everybody,
        "subject": " ".join(str(parsed["Subject"] or "").split()),
        "content": parts,
    }


def _addresses(parsed: EmailMessage, header: str) -> tuple[str, ...]:
    return tuple(
        address.addr_spec for each in parsed.get_all(header, ()) for address in each.addresses
    )


def _digest(part: EmailMessage) -> str:
    content = part.get_payload(decode=True)
    assert isinstance(content, bytes)
    if part.get_content_maintype() == "text":
        # The transport may change line ends of a text.
        content = content.replace(b"\r\n", b"\n").rstrip(b"\n")
    return sha256(content).hexdigest()


def _get_markers(users: Any, id_: str) -> Any:
    return users.messages().get(
        userId="me", id=id_, format="metadata", metadataHeaders=[MARK, *ID_HEADERS]
    )
