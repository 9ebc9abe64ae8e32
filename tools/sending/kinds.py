"""The kinds mail.send, mail.reply and mail.forward: they hand the approved bytes over once."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any, ClassVar, Literal
from uuid import UUID

from django.db import Error

from accounts.connect import mailbox_status
from accounts.infra.problems import Problem
from accounts.infra.texts import translatable
from accounts.models import Mailbox
from approvals.core.types import (
    BEFORE_WIRE,
    CLOCKS_DIFFER,
    ActionKind,
    AnsweredFirst,
    ApprovedAction,
    Arrivals,
    Changes,
    EditField,
    FollowUp,
    NotYet,
    Outcome,
    PreviewWarning,
    Proof,
    Proposal,
    Rendered,
    Response,
    Revisable,
    Verdict,
)
from approvals.gate.reconcile import DESTROYED, may_any_have_left
from approvals.gate.revisions import find_told_codes
from tools.mail.message.compose import add_date
from tools.models import Draft, DraftInTransit
from tools.providers import provider_for
from tools.providers.base import Handover, MailProvider, Message
from tools.providers.errors import (
    Busy,
    NotAuthorized,
    NotFound,
    NotPermitted,
    NotSent,
    OutcomeUnknown,
    ProviderError,
    Refused,
    TokenRefused,
    Unavailable,
    Unsupported,
)
from tools.providers.notes import DraftNotes
from tools.reading.compact import rfc3339
from tools.sending import revisions
from tools.sending.copies import keep_copy
from tools.sending.payload import Kind, MailPayload
from tools.sending.preview import render
from tools.sending.purpose import explain_mail
from tools.sending.responses import find_answer, find_arrived_answers, find_responses
from tools.sending.surroundings import (
    add_answers,
    find_own_answer,
    look_at_thread,
    remember_acquaintances,
)
from tools.stored import Unreadable
from tools.warnings.course import (
    build_answered_already,
    build_thread_moved,
    build_thread_unread,
)

DRAFT_CHANGED = Outcome(
    verdict="refused",
    proof=BEFORE_WIRE,
    code="draft_changed",
    detail=translatable("The draft was changed, sent or removed after it was proposed."),
)
DRAFT_WAS_SENT = Outcome(
    verdict="refused",
    proof=BEFORE_WIRE,
    code="draft_was_sent",
    detail=translatable(
        "Since the proposal another mail handed over the same draft. Look in the Sent folder."
    ),
)
WITHOUT_QUOTE = Outcome(
    verdict="refused",
    proof=BEFORE_WIRE,
    code="refused",
    detail=translatable(
        "The provider would have added the quote of this mail after the approval. mailhub no longer sends such mail."
    ),
)
UNREADABLE = "unreadable"
CLOCK_AHEAD = timedelta(days=2)  # by which our clock may have been wrong at the proposal


class SendMail(ActionKind):
    """The kind mail.send, and the base of the other kinds."""

    name: ClassVar[Kind] = "mail.send"
    marks: ClassVar[Literal["answered", "forwarded"] | None] = None
    template = "approvals/previews/mail.html"
    later_template = "approvals/previews/mail.later.html"
    is_editable = True

    def explain(self, tool: str, preview: Mapping[str, Any], proposer: str) -> str:
        return explain_mail(self.name, tool, preview, proposer)

    def render(self, payload: Mapping[str, Any], blob: Callable[[str], bytes]) -> Rendered:
        mail = MailPayload.from_json(payload)
        return render(mail.text, mail.html, blob(mail.source_sha256))

    def fields(self, payload: Mapping[str, Any]) -> tuple[EditField, ...]:
        return revisions.fields(MailPayload.from_json(payload))

    def revise(self, current: Revisable, changes: Changes) -> Proposal:
        proposal = revisions.revise_mail(current, changes)
        payload = MailPayload.from_json(proposal.payload)
        mailbox = Mailbox.objects.get(pk=payload.mailbox)
        refuse_what_cannot_leave(mailbox, payload, proposal.blobs[0])
        return proposal

    def execute(self, approved: ApprovedAction) -> Outcome:
        try:
            payload = MailPayload.from_json(approved.payload)
            notes = DraftNotes.from_json(approved.prepared)
        except Unreadable as error:
            return Outcome.broken_off(on_wire=False, code=UNREADABLE, detail=error.detail)
        if payload.lacks_quote:
            return WITHOUT_QUOTE
        mailbox = approved.mailbox
        named = (payload.kind, payload.mailbox, payload.message_id)
        if named != (approved.kind, str(mailbox.pk), approved.message_id):
            raise ValueError("the approved content is of another action")
        provider = provider_for(mailbox)
        date = format_datetime(datetime.now(UTC))
        source = add_date(approved.blob(payload.source_sha256), date=date)
        envelope = payload.envelope(source)
        handover = _handover(approved, notes)
        try:
            if _is_draft_changed(provider, payload):
                return DRAFT_CHANGED
            if payload.draft:
                # Written before the send: after a crash nobody knows whether the draft has left.
                DraftInTransit.note(mailbox, payload.draft.id, approved.id)
                if _was_sent_unnoticed(approved, payload.draft.id):
                    return DRAFT_WAS_SENT
            receipt = provider.send(envelope, handover)
        except (NotSent, OutcomeUnknown) as error:
            if isinstance(error, NotSent) and not handover.on_wire:
                error.proof = BEFORE_WIRE
            return _not_accepted(error, mailbox, provider)
        with suppress(Error):  # the mail stays accepted even if this note fails
            mailbox_status.mark_working(mailbox)
        return accepted_outcome(
            provider.name,
            len(envelope.recipients),
            receipt.at,
            date=receipt.date,
            changed=receipt.changed,
        )

    def reconcile(self, approved: ApprovedAction) -> Outcome | None:
        """Return the outcome if it can be proven, or None.

        Only the server can have put the mail into Sent, because our own copy is made after success.
        It proves only the content in Sent, so that is compared with the approved content.

        An unsent draft proves nothing, because the order to send it may be carried out late. The
        first lookup leaves it for such an order, and the second one destroys it. Only that is
        proof.
        """
        provider = provider_for(approved.mailbox)
        found = provider.find_sent(approved.message_id)
        if found is None:
            notes = DraftNotes.from_json(approved.prepared)
            if not provider.is_unsent(notes):
                return None
            if not notes.seen_unsent:
                approved.keep(notes.with_sighting().as_json())
                return None
            if not provider.destroy(notes):
                return None
            approved.keep({})
            proof = Proof(kind="destroyed", object=notes.draft)
            return Outcome(verdict="not_sent", proof=proof, code=DESTROYED)
        payload = MailPayload.from_json(approved.payload)
        envelope = payload.envelope(approved.blob(payload.source_sha256))
        changed = provider.differs_in_sent(approved.message_id, envelope)
        return accepted_outcome(
            provider.name,
            len(envelope.recipients),
            datetime.now(UTC),
            reference=found,
            changed=changed,
        )

    def can_look(self, approved: ApprovedAction) -> bool:
        return provider_for(approved.mailbox).can_find_sent

    def settle(self, approved: ApprovedAction) -> None:
        """Save the copy in Sent, mark the original, and remove the draft that was sent.

        Each step is idempotent. A failed one stops no other; it is raised at the end, so that all
        are repeated.
        """
        payload = MailPayload.from_json(approved.payload)
        mailbox = approved.mailbox
        remember_acquaintances(mailbox, payload.recipients)
        marks = self.marks if payload.original else None
        if not (payload.save_to_sent_items or marks or payload.draft):
            return
        provider = provider_for(mailbox)
        failed: list[ProviderError | NotYet] = []
        if payload.save_to_sent_items:
            try:
                keep_copy(provider, approved, payload)
            except (ProviderError, NotYet) as error:
                failed.append(error)
        if marks:
            try:
                provider.mark(payload.original, marks)
            except Refused:
                pass  # somebody has removed the original
            except ProviderError as error:
                failed.append(error)
        if payload.draft:
            try:
                _remove_draft(provider, mailbox, payload)
            except ProviderError as error:
                failed.append(error)
        if failed:
            raise min(failed, key=lambda error: isinstance(error, NotYet))

    def compare_effect(self, approved: ApprovedAction) -> tuple[str, ...] | None:
        """Return the differences between the copy in Sent and the approved mail."""
        payload = MailPayload.from_json(approved.payload)
        found_in_sent = (approved.receipt or {}).get("changed")  # then it was compared already
        if found_in_sent or not payload.save_to_sent_items:
            return ()
        envelope = payload.envelope(approved.blob(payload.source_sha256))
        try:
            return provider_for(approved.mailbox).differs_in_sent(approved.message_id, envelope)
        except NotFound:
            return None
        except Refused:
            return ()  # nobody may look there

    def follow_up(self, payload: Mapping[str, Any]) -> FollowUp | None:
        wish = MailPayload.from_json(payload).follow_up
        return FollowUp(after_days=wish.after_days, note=wish.note) if wish else None

    def shown_id(self, mailbox: Mailbox, message_id: str) -> str:
        try:
            with _noting_refusal(mailbox):
                return provider_for(mailbox).find_sent(message_id) or ""
        except Refused:  # nobody may look there
            return message_id

    def find_arrivals(self, mailbox: Mailbox, since: datetime) -> Arrivals:
        with _noting_refusal(mailbox):
            return find_responses(provider_for(mailbox), since, own=mailbox.address)

    def find_answer(self, mailbox: Mailbox, message_id: str) -> Response | None:
        with _noting_refusal(mailbox):
            return find_answer(provider_for(mailbox), message_id, own=mailbox.address)

    def discard(self, approved: ApprovedAction) -> bool:
        provider = provider_for(approved.mailbox)
        return provider.discard(DraftNotes.from_json(approved.prepared))

    def destroy(self, approved: ApprovedAction) -> bool:
        provider = provider_for(approved.mailbox)
        return provider.destroy(DraftNotes.from_json(approved.prepared))


class ReplyMail(SendMail):
    """The kind mail.reply."""

    name = "mail.reply"
    marks = "answered"
    aside_template = "approvals/previews/mail.aside.html"

    def recheck(self, approved: ApprovedAction) -> tuple[PreviewWarning, ...]:
        """Return a warning if somebody, or the mailbox itself, has answered since the proposal.

        A draft names what it answers too. If the mail is to leave only without an answer, the
        warning withdraws it; an answer that nobody could look for, or that may be older than the
        answered mail, does not: then a person decides again.
        """
        payload = MailPayload.from_json(approved.payload)
        mailbox = approved.mailbox
        answered, own = payload.in_reply_to, payload.sender
        is_due = payload.unless_answered and approved.is_leaving
        is_whole = True
        with _noting_refusal(mailbox):
            provider = provider_for(mailbox)
            look = look_at_thread(provider, payload.original, answered, payload.references, own=own)
            later = look.later
            if payload.unless_answered and answered:
                since = _search_from(look.named, approved.proposed_at)
                answers, is_whole = find_arrived_answers(provider, since, answered, own=own)
                later = add_answers(later, answers)
        found: list[PreviewWarning] = []
        if later is not None and later.ids:
            moved = build_thread_moved(later)
            at = later.arrived or later.date
            if payload.unless_answered and later.is_proven:
                moved = AnsweredFirst(**vars(moved), by=later.from_address, at=at)
            found.append(moved)
        mine = find_own_answer(look, payload.recipients, besides=[approved.message_id])
        if mine and approved.prepared:
            # Its owner may have sent the draft of an earlier attempt, and Sent gave it another id.
            ids = [approved.message_id, self.shown_id(mailbox, approved.message_id)]
            mine = find_own_answer(look, payload.recipients, besides=ids)
        if mine:
            found.append(build_answered_already(mine))
        if not is_whole or (later is not None and not later.is_whole):
            found.append(build_thread_unread(is_due=is_due))
        return tuple(found)


class ForwardMail(SendMail):
    """The kind mail.forward."""

    name = "mail.forward"
    marks = "forwarded"
    aside_template = "approvals/previews/mail.aside.html"


@contextmanager
def _noting_refusal(mailbox: Mailbox) -> Iterator[None]:
    try:
        yield
    except NotAuthorized:
        mailbox_status.mark_login_refused(mailbox)
        raise


def refuse_what_cannot_leave(mailbox: Mailbox, payload: MailPayload, source: bytes) -> None:
    """Raise Problem if the provider would refuse the mail after its approval."""
    try:
        provider_for(mailbox).check(payload.envelope(source))
    except NotPermitted as error:
        raise Problem(error.code, error.detail, required_scope=error.required_scope) from None
    except Refused as error:
        raise Problem(
            "too_large" if error.code == "too_large" else "invalid_input", error.detail
        ) from None


def _remove_draft(provider: MailProvider, mailbox: Mailbox, payload: MailPayload) -> None:
    """Remove the draft that was sent.

    It stays if the mailbox owner has changed it since the send, because it is theirs. Then, or if
    the removal is refused, its next proposal carries a warning.
    """
    assert payload.draft is not None
    draft_id = payload.draft.id
    if not _is_draft_changed(provider, payload):
        provider.delete_draft(draft_id)
        DraftInTransit.of(mailbox, draft_id).delete()
    Draft.objects.filter(mailbox=mailbox, provider_id=draft_id).delete()


def _handover(approved: ApprovedAction, notes: DraftNotes) -> Handover:
    """Return the handover of this attempt; a sighting of an earlier attempt is forgotten first."""
    if notes.seen_unsent:
        notes = notes.without_sighting()
        approved.keep(notes.as_json())
    handover = Handover(
        wire_started=lambda: approved.wire_started(handover.order.as_json()),
        prepared=notes,
        keep=lambda notes: approved.keep(notes.as_json()),
    )
    return handover


def may_have_sent_draft(mailbox: Mailbox, draft_id: str, *, besides: UUID | None = None) -> bool:
    """Return True if an action, other than `besides`, handed this draft over, and it is not proven
    that nothing left.
    """
    noted = DraftInTransit.of(mailbox, draft_id).values_list("action_id", flat=True)
    others = set(noted) - {besides}
    return None in others or may_any_have_left(each for each in others if each)


def _was_sent_unnoticed(approved: ApprovedAction, draft_id: str) -> bool:
    """Return True if another action may have sent the draft, and no page of this one says so."""
    return may_have_sent_draft(
        approved.mailbox, draft_id, besides=approved.id
    ) and DRAFT_WAS_SENT.code not in find_told_codes(approved.id)


def _is_draft_changed(provider: MailProvider, payload: MailPayload) -> bool:
    draft = payload.draft
    if draft is None:
        return False
    try:
        stored = provider.read_draft(draft.id)
    except Refused as error:
        if error.code not in ("not_found", "not_a_draft"):
            raise  # it was not looked at
        return True
    return stored.etag != draft.sha256


def _not_accepted(
    error: NotSent | OutcomeUnknown, mailbox: Mailbox, provider: MailProvider
) -> Outcome:
    """Return the outcome of a failed send, and note on the mailbox what the error says about it.

    Without a proof the outcome is unknown, whatever the provider said.
    """
    proof = error.proof if isinstance(error, NotSent) else None
    verdict: Verdict = "not_sent" if proof else "unknown"
    code, scope = error.code, None
    said = error if isinstance(error, Unavailable) else Unavailable(error.code)
    match error:
        case NotAuthorized():
            mailbox_status.mark_login_refused(mailbox)
            code, scope = "auth_error", provider.send_scope
        case NotPermitted():
            verdict, scope = "refused" if proof else "unknown", error.required_scope
        case Refused() | Unsupported():
            verdict = "refused" if proof else "unknown"
        # A provider that refuses a token or this mail for now, or asks for a cool-down, is reachable,
        # and one without a free slot was not asked.
        case NotSent() if not (
            said.pauses or said.answers or isinstance(error, Busy | TokenRefused)
        ):
            mailbox_status.mark_unreachable(mailbox.id)
    return Outcome(
        verdict=verdict,
        proof=proof,
        code=code,
        detail=error.detail,
        required_scope=scope,
        retry_after=said.retry_after,
        pauses_mailbox=said.pauses,
    )


def _search_from(answered: Sequence[Message], proposed_at: datetime) -> datetime:
    """Return the time from which an answer to the answered mail may have arrived.

    The mail server stamped the answered mail, and no answer to it is older. The bound by our own
    clock keeps the search short if that mail is old.
    """
    earliest = proposed_at - CLOCK_AHEAD
    arrived = min((each.arrived for each in answered if each.arrived), default=earliest)
    # Everybody can send a copy with the same Message-ID: one that came later hides no answer.
    return min(max(arrived, earliest), proposed_at - CLOCKS_DIFFER)


def accepted_outcome(
    provider: str,
    recipient_count: int,
    at: datetime,
    *,
    date: datetime | None = None,
    reference: str = "",
    changed: Sequence[str] = (),
) -> Outcome:
    """Return the outcome. Its receipt holds times and number of recipients, no address; `changed`
    names the differences from the approved mail.
    """
    receipt: dict[str, Any] = {
        "at": rfc3339(at),
        "recipient_count": recipient_count,
        "provider": provider,
    }
    if date:
        receipt["date"] = rfc3339(date)
    if changed:
        receipt["changed"] = list(changed)
    return Outcome(verdict="accepted", receipt=receipt, reference=reference)
