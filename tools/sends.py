"""Tools that send: they propose, and the kind that carries out what a person has approved."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import TYPE_CHECKING, Any

from django.conf import settings

from accounts import health
from accounts.caller import Caller
from accounts.models import Mailbox
from accounts.problems import Problem
from approvals import services as approvals
from approvals.digest import digest_of
from approvals.queries import described
from approvals.types import ApprovedAction, Outcome, Preview, Proposal, Rendered
from tools import preview as previews
from tools.compose import ComposeError, OutgoingMessage, Request, new_message, stamped
from tools.content import written
from tools.providers import provider_for
from tools.providers.base import Envelope, NotAuthorized, NotSent, OutcomeUnknown, Refused, Unavailable, Unsupported
from tools.schemas import SendEmail, SendingParameters
from tools.warnings import Context

if TYPE_CHECKING:
    from approvals.models import PendingAction

PAYLOAD_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class Proposed:
    """The answer to a proposal: the contract's `proposal`, whether a person's decision is still open, and whether
    the key had led to the action before."""

    result: dict[str, Any]
    action_id: str
    final: bool
    replayed: bool


def send_email(caller: Caller, mailbox: Mailbox, parameters: SendEmail) -> dict[str, Any] | Proposed:
    """Preview a new message, or propose it to a person. Nothing leaves here."""
    request = Request(
        from_address=mailbox.address,
        from_name=mailbox.name,
        to=tuple(parameters.to),
        cc=tuple(parameters.cc),
        bcc=tuple(parameters.bcc),
        subject=parameters.subject,
        content=written(parameters.body, parameters.body_type),
        importance=parameters.importance,
        save_to_sent=parameters.save_to_sent_items,
    )
    request_digest = _request_digest("send_email", parameters)
    if parameters.confirm:
        earlier = approvals.replay(
            caller=caller, mailbox=mailbox, tool="send_email", key=parameters.idempotency_key,
            request_digest=request_digest,
        )  # fmt: skip
        if earlier is not None:
            return _proposed(earlier, replayed=True)
    try:
        message = new_message(request)
    except ComposeError:
        raise Problem("invalid_input", "No message that says exactly this can be made of it.") from None
    preview = previews.of_message(message, _context(mailbox, request))
    payload = payload_of(message, mailbox)
    if not parameters.confirm:
        return previews.as_result(message, preview, mailbox=mailbox.address, digest=digest_of(payload))
    action, replayed = approvals.propose(
        caller=caller, mailbox=mailbox, tool="send_email", key=parameters.idempotency_key,
        request_digest=request_digest,
        proposal=Proposal(
            kind="mail.send", payload=payload, preview=preview, message_id=message.message_id,
            blobs=(message.source,),
        ),
    )  # fmt: skip
    return _proposed(action, replayed=replayed, preview=preview)


def payload_of(message: OutgoingMessage, mailbox: Mailbox) -> dict[str, Any]:
    """The canonical payload: everything that makes the effect, hashed whole."""
    request = message.request
    return {
        "version": PAYLOAD_VERSION, "kind": "mail.send", "mailbox": str(mailbox.id), "from": request.from_address,
        "to": list(request.to), "cc": list(request.cc), "bcc": list(request.bcc), "subject": request.subject,
        "text": request.content.text, "html": request.content.html, "importance": request.importance,
        "save_to_sent_items": request.save_to_sent, "message_id": message.message_id,
        "source_sha256": message.sha256,
    }  # fmt: skip


class SendMail:
    """mail.send: hands the approved bytes over, once."""

    def rendered(self, payload: Mapping[str, Any], blob: Callable[[str], bytes]) -> Rendered:
        source = blob(payload["source_sha256"])
        return Rendered(
            text=payload["text"], html=payload["html"], source=source.decode("ascii", "replace"), size=len(source)
        )

    def execute(self, approved: ApprovedAction) -> Outcome:
        mailbox = Mailbox.objects.get(pk=approved.mailbox_id)
        payload = approved.payload
        provider = provider_for(mailbox)
        recipients = _recipients(payload)
        envelope = Envelope(
            sender=payload["from"],
            recipients=recipients,
            source=stamped(approved.blob(payload["source_sha256"]), date=format_datetime(datetime.now(UTC))),
        )
        try:
            receipt = provider.send(envelope, wire_started=approved.wire_started)
        except NotAuthorized as error:
            health.login_refused(mailbox.id)
            return Outcome(
                verdict="not_sent", code="auth_error", detail=error.detail, required_scope=provider.send_scope
            )
        except (Refused, Unsupported) as error:
            return Outcome(verdict="refused", code=error.code, detail=error.detail)
        except NotSent as error:
            health.unreachable(mailbox.id)
            retry_after = error.retry_after if isinstance(error, Unavailable) else None
            return Outcome(verdict="not_sent", code=error.code, detail=error.detail, retry_after=retry_after)
        except OutcomeUnknown as error:
            return Outcome(verdict="unknown", code=error.code, detail=error.detail)
        health.works(mailbox.id)
        return _accepted(provider.name, len(recipients), receipt.at)

    def reconcile(self, approved: ApprovedAction) -> Outcome | None:
        """Found in Sent, where only the server itself can have put it: our own copy is made after success alone."""
        mailbox = Mailbox.objects.get(pk=approved.mailbox_id)
        provider = provider_for(mailbox)
        if not provider.was_sent(approved.message_id):
            return None
        return _accepted(provider.name, len(_recipients(approved.payload)), datetime.now(UTC))

    def settle(self, approved: ApprovedAction) -> None:
        """The copy in Sent: made once, by Message-ID; a server that saves its own has it already."""
        payload = approved.payload
        if payload["save_to_sent_items"]:
            mailbox = Mailbox.objects.get(pk=approved.mailbox_id)
            copy = stamped(
                approved.blob(payload["source_sha256"]),
                date=format_datetime(datetime.now(UTC)),
                bcc=tuple(payload["bcc"]),
            )
            provider_for(mailbox).save_sent_copy(copy, approved.message_id)


def _accepted(provider: str, recipient_count: int, at: datetime) -> Outcome:
    """The receipt holds time and number, no address."""
    receipt = {
        "at": at.isoformat(timespec="seconds").replace("+00:00", "Z"),
        "recipient_count": recipient_count,
        "provider": provider,
    }
    return Outcome(verdict="accepted", receipt=receipt)


def _recipients(payload: Mapping[str, Any]) -> tuple[str, ...]:
    return (*payload["to"], *payload["cc"], *payload["bcc"])


def _context(mailbox: Mailbox, request: Request) -> Context:
    fingerprint = previews.fingerprint(request.to, request.subject, request.content.body)
    return Context(
        own_domains=frozenset({mailbox.domain}),
        recent_duplicate=approvals.duplicates_of(
            mailbox=mailbox, fingerprint=fingerprint, window=timedelta(seconds=settings.DUPLICATE_WINDOW_SECONDS)
        ),
        open_twin=approvals.open_twin(mailbox=mailbox, fingerprint=fingerprint),
    )


def _request_digest(tool: str, parameters: SendingParameters) -> str:
    """What makes two requests the same: all that was asked for, whichever way the mailbox was named."""
    asked = parameters.model_dump(mode="json", exclude={"mailbox", "idempotency_key", "confirm"})
    return digest_of({"tool": tool, "parameters": asked})


def _proposed(action: "PendingAction", *, replayed: bool, preview: Preview | None = None) -> Proposed:
    shown = described(action)
    if replayed and action.is_final:
        shown["message"] = "Already executed"
    warnings = previews.as_warnings(preview) if preview and not replayed else []
    return Proposed(
        result={"status": shown["state"], "action": shown, "warnings": warnings},
        action_id=str(action.pk),
        final=action.is_final,
        replayed=replayed,
    )
