"""The kinds mail.send, mail.reply and mail.forward: they hand the approved bytes over once."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any, ClassVar, Literal

from django.db import DatabaseError

from accounts.connect import mailbox_status
from accounts.infra.problems import Problem
from accounts.models import Mailbox
from approvals.core.types import (
    ApprovedAction,
    Changes,
    EditField,
    Outcome,
    PreviewWarning,
    Proposal,
    Rendered,
    Revisable,
)
from approvals.lifecycle.reconcile import DESTROYED
from tools.mail.message.compose import stamped
from tools.mail.message.markup import compared_texts
from tools.models import Draft
from tools.providers import provider_for
from tools.providers.base import Envelope, Handover, MailProvider
from tools.providers.errors import (
    Busy,
    NotAuthorized,
    NotPermitted,
    NotSent,
    OutcomeUnknown,
    Refused,
    TokenRefused,
    Unavailable,
    Unsupported,
)
from tools.sending import revisions
from tools.sending.revisions import REVISED
from tools.sending.surroundings import acquainted, later_in_thread
from tools.warnings.course import moved_on

DRAFT_CHANGED = Outcome(
    verdict="refused",
    code="draft_changed",
    detail="The draft was changed or removed after it was proposed.",
)
SEEN_UNSENT = "seen_unsent"
Sort = Literal["send", "reply", "forward"]


class SendMail:
    """The kind mail.send, and the base of the other kinds."""

    sort: ClassVar[Sort] = "send"
    marks: ClassVar[Literal["answered", "forwarded"] | None] = None

    def rendered(self, payload: Mapping[str, Any], blob: Callable[[str], bytes]) -> Rendered:
        source = blob(payload["source_sha256"])
        text, html = payload["text"], payload["html"]
        passages, unseen = compared_texts(text, html) if html is not None else ((), ())
        return Rendered(
            text=text,
            html=html,
            source=source.decode("ascii", "replace"),
            size=len(source),
            passages=passages,
            unseen=unseen,
        )

    def fields(self, payload: Mapping[str, Any]) -> tuple[EditField, ...]:
        return revisions.fields(payload)

    def revise(self, current: Revisable, changes: Changes) -> Proposal:
        proposal = revisions.revised(current, changes)
        mailbox = Mailbox.objects.get(pk=proposal.payload["mailbox"])
        refuse_what_cannot_leave(mailbox, proposal.payload, proposal.blobs[0], sort=self.sort)
        return proposal

    def execute(self, approved: ApprovedAction) -> Outcome:
        mailbox = Mailbox.objects.get(pk=approved.mailbox_id)
        provider = provider_for(mailbox)
        source = stamped(approved.blob(approved.payload["source_sha256"]), date=_now())
        envelope = envelope_of(approved.payload, source, sort=self.sort)
        prepared = {name: value for name, value in approved.prepared.items() if name != SEEN_UNSENT}
        if prepared != approved.prepared:
            approved.keep(prepared)  # that note is about the earlier attempt, not this one
        handover = Handover(
            wire_started=approved.wire_started, prepared=prepared, keep=approved.keep
        )
        try:
            if _draft_changed(provider, approved.payload):
                return DRAFT_CHANGED
            receipt = provider.send(envelope, handover)
        except NotAuthorized as error:
            mailbox_status.login_refused(mailbox)
            return Outcome(
                verdict="not_sent",
                code="auth_error",
                detail=error.detail,
                required_scope=provider.send_scope,
            )
        except NotPermitted as error:
            return Outcome(
                verdict="refused",
                code=error.code,
                detail=error.detail,
                required_scope=error.required_scope,
            )
        except (Refused, Unsupported) as error:
            return Outcome(verdict="refused", code=error.code, detail=error.detail)
        except NotSent as error:
            said = error if isinstance(error, Unavailable) else Unavailable(error.code)
            # A provider that refuses a token or asks for a cool-down is reachable, and one without
            # a free slot was not asked.
            if not (said.pauses or isinstance(error, Busy | TokenRefused)):
                mailbox_status.unreachable(mailbox.id)
            return Outcome(
                verdict="not_sent",
                code=error.code,
                detail=error.detail,
                retry_after=said.retry_after,
                pauses_mailbox=said.pauses,
            )
        except OutcomeUnknown as error:
            return Outcome(verdict="unknown", code=error.code, detail=error.detail)
        with suppress(DatabaseError):  # the mail stays accepted even if this note fails
            mailbox_status.works(mailbox)
        return _accepted(
            provider.name, len(envelope.recipients), receipt.at, changed=receipt.changed
        )

    def reconcile(self, approved: ApprovedAction) -> Outcome | None:
        """Return the outcome if it can be proven, or None.

        Only the server can have put the mail into Sent, because our own copy is made after success.
        It proves only the content in Sent, so that is compared with the approved content.

        An unsent draft proves nothing, because the order to send it may be carried out late. The
        first lookup leaves it for such an order, and the second one destroys it. Only that is
        proof.
        """
        provider = provider_for(Mailbox.objects.get(pk=approved.mailbox_id))
        found = provider.find_sent(approved.message_id)
        if found is None:
            if not provider.is_unsent(approved.prepared):
                return None
            if SEEN_UNSENT not in approved.prepared:
                approved.keep({**approved.prepared, SEEN_UNSENT: True})
                return None
            if not provider.destroy(approved.prepared):
                return None
            approved.keep({})
            return Outcome(verdict="not_sent", code=DESTROYED)
        source = approved.blob(approved.payload["source_sha256"])
        envelope = envelope_of(approved.payload, source, sort=self.sort)
        changed = provider.differs_in_sent(approved.message_id, envelope)
        return _accepted(
            provider.name,
            len(envelope.recipients),
            datetime.now(UTC),
            reference=found,
            changed=changed,
        )

    def settle(self, approved: ApprovedAction) -> None:
        """Save the copy in Sent, mark the original, and remove the draft that was sent; each is
        idempotent.
        """
        payload = approved.payload
        mailbox = Mailbox.objects.get(pk=approved.mailbox_id)
        acquainted(mailbox, _recipients(payload))
        marks = self.marks if payload["original"] else None
        if not (payload["save_to_sent_items"] or marks or payload["draft"]):
            return
        provider = provider_for(mailbox)
        if payload["save_to_sent_items"]:
            left_at = (
                datetime.fromisoformat(approved.receipt["at"])
                if approved.receipt
                else datetime.now(UTC)
            )
            copy = stamped(
                approved.blob(payload["source_sha256"]),
                date=format_datetime(left_at),
                bcc=tuple(payload["bcc"]),
            )
            provider.save_sent_copy(copy, approved.message_id)
        if marks:
            _unless_gone(lambda: provider.mark(payload["original"], marks))
        if payload["draft"]:
            _unless_gone(lambda: provider.delete_draft(payload["draft"]["id"]))
            Draft.objects.filter(
                mailbox=approved.mailbox_id, provider_id=payload["draft"]["id"]
            ).delete()

    def discard(self, approved: ApprovedAction) -> None:
        provider_for(Mailbox.objects.get(pk=approved.mailbox_id)).discard(approved.prepared)

    def destroy(self, approved: ApprovedAction) -> bool:
        return provider_for(Mailbox.objects.get(pk=approved.mailbox_id)).destroy(approved.prepared)


class ReplyMail(SendMail):
    """The kind mail.reply."""

    sort = "reply"
    marks = "answered"

    def recheck(self, approved: ApprovedAction) -> tuple[PreviewWarning, ...]:
        """Return a warning if somebody has written in the thread since the proposal.

        An original that is gone no longer has a thread.
        """
        payload = approved.payload
        if not payload["original"]:
            return ()
        mailbox = Mailbox.objects.get(pk=approved.mailbox_id)
        try:
            later = later_in_thread(
                provider_for(mailbox),
                payload["original"],
                payload["in_reply_to"],
                own=approved.message_id,
            )
        except NotAuthorized:
            mailbox_status.login_refused(mailbox)
            raise
        return (moved_on(later, own=payload["from"]),) if later else ()


class ForwardMail(SendMail):
    """The kind mail.forward."""

    sort = "forward"
    marks = "forwarded"


def envelope_of(payload: Mapping[str, Any], source: bytes, *, sort: Sort) -> Envelope:
    """Return the envelope of a payload."""
    return Envelope(
        sender=payload["from"],
        recipients=_recipients(payload),
        source=source,
        # An edited mail is more than a comment on an original: it leaves as its own bytes, and an
        # answer stays in its thread.
        kind="send" if payload.get(REVISED) and not payload["in_reply_to"] else sort,
        original=payload["original"],
        reply_all=payload.get("reply_all", False),
        comment="" if payload.get(REVISED) else payload.get("comment", ""),
        save_to_sent=payload["save_to_sent_items"],
    )


def refuse_what_cannot_leave(
    mailbox: Mailbox, payload: Mapping[str, Any], source: bytes, *, sort: Sort
) -> None:
    """Raise Problem if the provider would refuse the mail after its approval."""
    try:
        provider_for(mailbox).check(envelope_of(payload, source, sort=sort))
    except NotPermitted as error:
        raise Problem(error.code, error.detail, required_scope=error.required_scope) from None
    except Refused as error:
        raise Problem(
            "too_large" if error.code == "too_large" else "invalid_input", error.detail
        ) from None


def _draft_changed(provider: MailProvider, payload: Mapping[str, Any]) -> bool:
    draft = payload["draft"]
    if draft is None:
        return False
    try:
        stored = provider.read_draft(draft["id"])
    except Refused as error:
        if error.code not in ("not_found", "not_a_draft"):
            raise  # it was not looked at
        return True
    return bool(stored.seal != draft["sha256"])


def _unless_gone(call: Callable[[], None]) -> None:
    with suppress(Refused):  # somebody has removed it already, so nothing is left to do
        call()


def _accepted(
    provider: str,
    recipient_count: int,
    at: datetime,
    *,
    reference: str = "",
    changed: Sequence[str] = (),
) -> Outcome:
    """Return the outcome. Its receipt holds time and number of recipients, no address; `changed`
    names the differences from the approved mail.
    """
    receipt: dict[str, Any] = {
        "at": at.isoformat(timespec="seconds").replace("+00:00", "Z"),
        "recipient_count": recipient_count,
        "provider": provider,
    }
    if changed:
        receipt["changed"] = list(changed)
    return Outcome(verdict="accepted", receipt=receipt, reference=reference)


def _recipients(payload: Mapping[str, Any]) -> tuple[str, ...]:
    return (*payload["to"], *payload["cc"], *payload["bcc"])


def _now() -> str:
    return format_datetime(datetime.now(UTC))
