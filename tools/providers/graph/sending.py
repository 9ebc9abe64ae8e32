"""The handover of a message to Graph.

With Mail.ReadWrite, a draft is created, read back, compared with the approved mail, and sent by its
id; as long as it is there unchanged, it did not go out. Without it, `sendMail` takes the approved
bytes. If no copy is to be kept, `sendMail` takes the approved mail as JSON. Microsoft completes
nothing on any of these ways.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, NamedTuple

from django.conf import settings

from accounts.connect.microsoft import DRAFT
from accounts.infra.texts import translatable
from approvals.core.types import Proof
from tools.providers.base import Envelope, Flag, Handover, Receipt, always_held
from tools.providers.errors import NotPermitted, NotSent, OutcomeUnknown, Refused
from tools.providers.graph.answers import REQUEST_LIMIT, refuse_too_large
from tools.providers.graph.attachments import GraphAttachments
from tools.providers.graph.client import WRITE, GraphClient
from tools.providers.graph.drafting import GraphDrafts
from tools.providers.graph.evidence import GraphEvidence, is_unchanged
from tools.providers.graph.mailbox import GraphMailbox, path_of
from tools.providers.graph.outgoing import Outgoing, dump, parse_outgoing, write_json, write_mime
from tools.providers.notes import DraftNotes
from tools.providers.send_draft import DraftGone, send_draft

# PidTagLastVerbExecuted: Outlook shows it as answered or forwarded (MS-OXOMSG 2.2.1.38).
LAST_VERB = "Integer 0x1081"
VERBS = {"answered": "102", "forwarded": "104"}
NO_DRAFT = translatable("The prepared draft is no longer a draft.")
NEEDS_COPY = translatable("Microsoft 365 sends an answer only with a copy in Sent.")
GONE = translatable("The prepared draft is gone, and it is not known why.")
WENT_AWAY = translatable("The draft was removed while it was prepared.")
UNFINISHED = translatable("What was prepared is gone, or was sent from the mailbox unfinished.")


class Call(NamedTuple):
    """The body of a call to `sendMail`, and its media type."""

    content: bytes
    sort: str


class GraphSender:
    """The sending part: by a draft if the permissions allow it, otherwise by `sendMail`."""

    def __init__(
        self,
        mailbox: GraphMailbox,
        drafts: GraphDrafts,
        attachments: GraphAttachments,
        evidence: GraphEvidence,
    ) -> None:
        self._mailbox = mailbox
        self._client = mailbox.client
        self._drafts = drafts
        self._attachments = attachments
        self._evidence = evidence

    def check(self, envelope: Envelope) -> None:
        """Refuse an answer without a copy too: Graph would send it outside its conversation."""
        if envelope.kind == "reply" and not envelope.save_to_sent:
            raise Refused("refused", NEEDS_COPY)
        self._choose(envelope, parse_outgoing(envelope.source, recipients=envelope.recipients))

    def send(self, envelope: Envelope, handover: Handover) -> Receipt:
        # first, because the permissions of a renewed token decide how the mail is sent
        self._client.sign_in()
        outgoing = parse_outgoing(envelope.source, recipients=envelope.recipients)
        call = self._choose(envelope, outgoing)
        if call is not None:
            self._refuse_if_sent(outgoing.message_id, handover)
            try:
                _hand_over(self._client, "/sendMail", handover.start_wire, *call)
            except NotSent as error:  # it names no object: the answer is about this order only
                error.proof = error.proof or Proof(kind="answer")
                raise
            return Receipt(at=datetime.now(UTC))
        draft = _GraphDraft(
            envelope=envelope,
            outgoing=outgoing,
            prepared=handover.prepared,
            client=self._client,
            drafts=self._drafts,
            attachments=self._attachments,
            evidence=self._evidence,
        )
        return send_draft(draft, handover)

    def save_sent_copy(
        self, source: bytes, message_id: str, *, check_lease: Callable[[], None] = always_held
    ) -> int:
        """Do nothing, because Exchange keeps the copy itself."""
        return 1

    def mark(self, message_id: str, flag: Flag) -> None:
        body = {"singleValueExtendedProperties": [{"id": LAST_VERB, "value": VERBS[flag]}]}
        self._client.call("PATCH", self._mailbox.find_message(message_id), scope=WRITE, json=body)

    def _refuse_if_sent(self, message_id: str, handover: Handover) -> None:
        """Raise OutcomeUnknown if the mailbox owner may have sent the draft of an earlier attempt.

        Without a permission to look, nobody knows.
        """
        prepared = handover.prepared
        if prepared.is_empty:
            return
        with suppress(NotPermitted):
            if self._mailbox.can_read and not self._evidence.was_sent(message_id, prepared):
                return
        handover.order = prepared
        handover.start_wire()  # not by this attempt, but the mail may have gone out
        raise OutcomeUnknown("draft_gone", NO_DRAFT)

    def _choose(self, envelope: Envelope, outgoing: Outgoing) -> Call | None:
        """Return the body of the call to `sendMail`, or None if the mail is sent as a draft.

        Only JSON can say that no copy is to be kept. Raises Refused for a mail that is too large.
        https://learn.microsoft.com/en-us/graph/api/user-sendmail
        """
        can_draft, call = self._mailbox.can_draft, None
        if not envelope.save_to_sent:
            call = Call(write_json(outgoing), "application/json")
        elif not can_draft:
            call = Call(write_mime(envelope.source, outgoing), "text/plain")
        if len(call.content if call else dump(outgoing.as_json())) > REQUEST_LIMIT:
            raise refuse_too_large(needs="" if can_draft else DRAFT)
        return call


@dataclass(frozen=True, kw_only=True)
class _Found:
    """A draft that was read back. `wrong` names its differences from the approved mail."""

    state: Mapping[str, Any]
    wrong: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class _GraphDraft:
    """One approved mail as a draft in Graph.

    The notes of a compared draft have its `version`: another one was changed in the mailbox. Each
    attempt compares the content too, because somebody may write other notes into the database.
    """

    envelope: Envelope
    outgoing: Outgoing
    prepared: DraftNotes  # the notes of the earlier attempt
    client: GraphClient
    drafts: GraphDrafts
    attachments: GraphAttachments
    evidence: GraphEvidence

    @property
    def marker(self) -> str:
        return self.outgoing.message_id

    def take_up(self, handover: Handover) -> DraftNotes | None:
        """Return the notes on a draft that was compared; remove one that was not.

        If the mailbox owner has sent that one, it may have been incomplete: raise DraftGone.
        """
        if self.prepared.is_compared:
            return self.prepared
        if self.evidence.was_sent(self.marker, self.prepared):
            raise DraftGone(UNFINISHED)
        # That it is gone from here on is our own doing.
        handover.keep(DraftNotes(marker=self.marker))
        if not self.evidence.remove(self.prepared):
            raise DraftGone(UNFINISHED)
        return None

    def create(self) -> DraftNotes:
        draft = self.drafts.create(
            self.outgoing, kind=self.envelope.kind, original=self.envelope.original
        )
        source = sha256(self.envelope.source).hexdigest()
        return DraftNotes(marker=self.marker, draft=draft, source=source)

    def fill(self, notes: DraftNotes) -> None:
        with self._raise_if_gone(notes):
            self.attachments.fill(path_of(notes.draft), self.outgoing.files)

    def read_back(self, notes: DraftNotes) -> _Found:
        with self._raise_if_gone(notes):
            read, wrong = self.evidence.compare(notes.draft, self.outgoing)
        return _Found(state=read, wrong=tuple(wrong))

    def compare(self, notes: DraftNotes, read: _Found) -> DraftNotes:
        """Return the notes with the version that was compared.

        If another version was compared before, the mailbox owner changed the draft or threw it away:
        raise Refused.
        """
        # The mailbox owner may have sent it, even incomplete, or be sending it.
        if self.evidence.may_have_left(read.state, notes):
            raise DraftGone(NO_DRAFT if notes.is_compared else WENT_AWAY)
        if notes.is_compared and not is_unchanged(read.state, notes):
            raise Refused(
                "draft_changed", "The prepared draft was changed or moved in the mailbox."
            )
        if read.wrong:
            raise Refused(
                "readback_mismatch",
                translatable(
                    "The draft at Microsoft 365 differs from the approved content in: %(fields)s.",
                    fields=", ".join(read.wrong),
                ),
            )
        version, folder = read.state.get("changeKey"), read.state.get("parentFolderId")
        return notes.with_version(version, folder)

    def send(self, notes: DraftNotes, wire_started: Callable[[], None]) -> str:
        _hand_over(self.client, f"{path_of(notes.draft)}/send", wire_started)
        return ""  # Graph's answer names nothing

    def is_still_there(self, notes: DraftNotes) -> bool:
        return self.evidence.is_still_a_draft(notes)

    def classify(self, gone: DraftGone) -> Receipt:
        """Raise OutcomeUnknown: a later lookup in Sent finds the mail if it was sent."""
        raise OutcomeUnknown("draft_gone", str(gone))

    @contextmanager
    def _raise_if_gone(self, notes: DraftNotes) -> Iterator[None]:
        """Raise DraftGone instead of a refusal if the draft is no longer there as a draft."""
        try:
            yield
        except Refused:
            if self.evidence.is_still_a_draft(notes):
                raise
            raise DraftGone(GONE if notes.is_compared else WENT_AWAY) from None


def _hand_over(
    client: GraphClient,
    path: str,
    wire_started: Callable[[], None],
    content: bytes = b"",
    sort: str = "",
) -> None:
    seconds = settings.MAILHUB_WIRE_TIMEOUT_SECONDS
    client.hand_over(path, content, sort=sort, wire_started=wire_started, answer_seconds=seconds)
