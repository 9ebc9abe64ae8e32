"""Tools that send: each composes the complete message, and previews it or proposes it to a person.

No mail leaves here.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.utils import timezone

from accounts.access import rate_limits
from accounts.access.caller import Caller
from accounts.infra.problems import FieldError, Problem
from accounts.infra.texts import translatable
from accounts.models import Mailbox
from approvals.core.signatures import digest_of
from approvals.core.types import Proposal
from approvals.gate import propose as proposals
from approvals.gate import twins
from approvals.gate.rules.policy import leave_from, policy_of, refusal_by_lists
from tools.answers import MailPreview
from tools.mail.message.compose import (
    OutgoingMessage,
    Request,
    chain,
    forward_subject,
    parent,
    reply_subject,
)
from tools.mail.message.content import Content, Original
from tools.mail.message.markup import answer_content, author_content, forward_content
from tools.providers import provider_for
from tools.providers.failures import map_errors
from tools.reading.compact import rfc3339
from tools.reading.originals import (
    answer_names,
    answer_recipients,
    as_original,
    forwarded_attachments,
)
from tools.reading.own_mail import provider_of
from tools.schemas import (
    AnswerParameters,
    ForwardEmail,
    MailParameters,
    ReplyEmail,
    SendDraft,
    SendEmail,
    SendingParameters,
)
from tools.sending import preview as previews
from tools.sending.answers import Proposed, build_proposed, shows_mail
from tools.sending.drafts import find_authors, find_other_senders
from tools.sending.kinds import may_have_sent_draft, refuse_what_cannot_leave
from tools.sending.payload import (
    KINDS,
    VERSION,
    MailPayload,
    ProposedDraft,
    StoredFollowUp,
    file_digests,
)
from tools.sending.prepared import refuse_prepared
from tools.sending.purpose import describe_original
from tools.sending.requests import (
    check_callback,
    check_send_time,
    encode,
    notes_of_text,
    read_remarks,
    request_of_draft,
    understand,
)
from tools.sending.surroundings import (
    Look,
    all_text,
    find_own_answer,
    find_unconfirmed,
    lies_in_sent,
    look_at_thread,
    surroundings,
)
from tools.sending.uploads import load_attachments
from tools.warnings import Context, Later, Unconfirmed

# Members that were added later.
LATER = (
    "replaces",
    "reason",
    "metadata",
    "callback_url",
    "send_at",
    "unless_answered",
    "follow_up",
)
NO_QUESTION = "This draft answers no mail, so nobody can answer first."
NOT_AN_ANSWER = FieldError(
    field="unless_answered", message=translatable("needs a mail that answers another one")
)
NOBODY_LOOKS = "mailhub cannot read this mailbox, so it would not see an answer."
UNREAD = FieldError(field="follow_up", message=translatable("needs the permission to read mail"))


@dataclass(frozen=True, kw_only=True)
class Composed:
    """The mail that a tool asks to send, and its origin.

    `later` is a newer message of the thread that it answers, and `mine` an answer of the mailbox
    itself. `is_forged`: the answered mail claims to be from the mailbox, but is not in Sent.
    `unconfirmed` is its sender if the checks failed. `draft_from` are the senders of a draft that is
    not from the mailbox. `notes` say what the caller may not expect.
    """

    request: Request
    original: Original | None = None
    original_id: str = ""
    reply_all: bool = False
    comment: str = ""
    draft: ProposedDraft | None = None
    draft_from: str = ""
    authors: tuple[int, ...] = ()
    later: Later | None = None
    mine: Later | None = None
    is_forged: bool = False
    unconfirmed: Unconfirmed | None = None
    notes: tuple[str, ...] = ()


def send_email(caller: Caller, mailbox: Mailbox, parameters: SendEmail) -> MailPreview | Proposed:
    """Preview a new message, or propose it to a person."""
    if earlier := find_earlier(caller, mailbox, "send_email", parameters):
        return earlier
    _check_copy(mailbox, parameters.save_to_sent_items)
    people = understand(to=parameters.to, cc=parameters.cc, bcc=parameters.bcc)
    request = Request(
        **people.envelope(mailbox),
        subject=parameters.subject,
        content=author_content(parameters.body, parameters.body_type),
        importance=parameters.importance,
        attachments=load_attachments(caller, mailbox, parameters.attachments),
        save_to_sent=parameters.save_to_sent_items,
    )
    notes = (*people.notes, *notes_of_text(parameters.body, parameters.body_type))
    composed = Composed(request=request, notes=notes)
    return _propose(caller, mailbox, "send_email", parameters, composed)


def reply_email(caller: Caller, mailbox: Mailbox, parameters: ReplyEmail) -> MailPreview | Proposed:
    """Preview or propose an answer: resolve its recipients now, quote the original, keep the
    thread.
    """
    if earlier := find_earlier(caller, mailbox, "reply_email", parameters):
        return earlier
    _check_copy(mailbox, parameters.save_to_sent_items)
    with map_errors(mailbox):
        provider = provider_of(mailbox)
        message = provider.read_message(parameters.message_id, body=True)
        original = as_original(message)
        to, cc = answer_recipients(original, own=mailbox.address, reply_all=parameters.reply_all)
        wrote = {each.lower() for each in (original.from_address, *original.reply_to)}
        later, mine, is_forged = None, None, False
        if _asks_mailbox("reply", parameters):
            look = look_at_thread(
                provider,
                parameters.message_id,
                original.message_id,
                original.references,
                own=mailbox.address,
            )
            later, mine = look.later, find_own_answer(look, to)
            is_forged = wrote.isdisjoint(map(str.lower, to)) and not lies_in_sent(
                provider, parameters.message_id, to[0]
            )
    people = understand(
        to=to,
        cc=(*cc, *parameters.cc),
        bcc=parameters.bcc,
        names=answer_names(original, (*to, *cc)),
    )
    own = author_content(parameters.comment, parameters.body_type)
    request = Request(
        kind="reply",
        **people.envelope(mailbox),
        subject=reply_subject(original.subject),
        content=answer_content(own, original),
        attachments=load_attachments(caller, mailbox, parameters.attachments),
        in_reply_to=parent(original),
        references=chain(original),
        save_to_sent=parameters.save_to_sent_items,
    )
    composed = Composed(
        request=request,
        original=original,
        original_id=parameters.message_id,
        reply_all=parameters.reply_all,
        comment=own.text,
        later=later,
        mine=mine,
        is_forged=is_forged,
        unconfirmed=find_unconfirmed(message),
        notes=(*people.notes, *notes_of_text(parameters.comment, parameters.body_type)),
    )
    return _propose(caller, mailbox, "reply_email", parameters, composed)


def forward_email(
    caller: Caller, mailbox: Mailbox, parameters: ForwardEmail
) -> MailPreview | Proposed:
    """Preview or propose a forward with the original's attachments, byte for byte."""
    if earlier := find_earlier(caller, mailbox, "forward_email", parameters):
        return earlier
    _check_copy(mailbox, parameters.save_to_sent_items)
    with map_errors(mailbox):
        provider = provider_of(mailbox)
        message = provider.read_message(parameters.message_id, body=True)
        original = as_original(message)
        attachments = forwarded_attachments(provider, message)
    people = understand(to=parameters.to, cc=parameters.cc, bcc=parameters.bcc)
    own = author_content(parameters.comment or "", parameters.body_type)
    comment: Content | None = own if parameters.comment else None
    request = Request(
        kind="forward",
        **people.envelope(mailbox),
        subject=forward_subject(original.subject),
        content=forward_content(comment, original),
        attachments=(
            *attachments,
            *load_attachments(caller, mailbox, parameters.attachments),
        ),
        references=chain(original),
        save_to_sent=parameters.save_to_sent_items,
    )
    composed = Composed(
        request=request,
        original=original,
        original_id=parameters.message_id,
        comment=own.text,
        unconfirmed=find_unconfirmed(message),
        notes=(*people.notes, *notes_of_text(parameters.comment, parameters.body_type)),
    )
    return _propose(caller, mailbox, "forward_email", parameters, composed)


def send_draft(caller: Caller, mailbox: Mailbox, parameters: SendDraft) -> MailPreview | Proposed:
    """Preview or propose the present content of a draft; it is not sent if the draft
    changes first.
    """
    if earlier := find_earlier(caller, mailbox, "send_draft", parameters):
        return earlier
    with map_errors(mailbox):
        provider = provider_of(mailbox)
        stored = provider.read_draft(parameters.draft_id)
    refuse_prepared(mailbox, provider, stored)
    request = request_of_draft(stored.source, mailbox)
    look = Look(named=[])
    if request.in_reply_to:
        with map_errors(mailbox):
            look = look_at_thread(
                provider, "", request.in_reply_to, request.references, own=mailbox.address
            )
    composed = Composed(
        request=request,
        draft=ProposedDraft(id=stored.id, sha256=stored.etag),
        draft_from=find_other_senders(stored.source, mailbox),
        authors=tuple(find_authors(mailbox, stored)),
        later=look.later,
        mine=find_own_answer(look, (*request.to, *request.cc)),
        unconfirmed=find_unconfirmed(*look.named),
    )
    return _propose(caller, mailbox, "send_draft", parameters, composed)


def _propose(
    caller: Caller,
    mailbox: Mailbox,
    tool: str,
    parameters: MailParameters,
    composed: Composed,
) -> MailPreview | Proposed:
    """Encode the mail, with the generate-parse-compare gate, and preview it.

    confirm=false: return the preview. confirm=true: store it for a person to decide.
    """
    send_at = parameters.send_at
    message = encode(composed.request)
    policy = policy_of(mailbox)
    context = _look_around(mailbox, composed, parameters, policy.confirmed_domains)
    payload = _payload(message, mailbox, composed, parameters, send_at)
    preview = previews.of_message(
        message,
        context,
        conditions=payload.conditions,
        around=describe_original(composed.original),
    )
    refuse_what_cannot_leave(mailbox, payload, message.source)
    proposal = Proposal(
        kind=payload.kind,
        payload=payload.as_json(),
        preview=preview,
        message_id=message.message_id,
        blobs=(message.source,),
        send_at=send_at,
        asked_fingerprint=previews.fingerprints(message.request)[1],
    )
    if not parameters.confirm:
        # as `propose` does
        if refusal := refusal_by_lists(policy, message.recipients):
            raise refusal
        return previews.as_result(
            message,
            preview,
            mailbox=mailbox.address,
            digest=digest_of(proposal.payload),
            original=composed.original,
            shows_mail=shows_mail(caller, tool),
            times=_times(leave_from(policy, now=timezone.now(), send_at=send_at)),
            notes=composed.notes,
        )
    rate_limits.count_stored(caller, len(message.source))
    action, replayed = proposals.propose(
        caller=caller,
        mailbox=mailbox,
        tool=tool,
        key=parameters.idempotency_key,
        request_digest=request_digest(tool, parameters),
        proposal=proposal,
        replaces=parameters.replaces,
        remarks=read_remarks(parameters),
        authors=composed.authors,
    )
    return build_proposed(action, caller, replayed=replayed, notes=composed.notes)


def _times(found: Mapping[str, datetime | None]) -> dict[str, str]:
    """Return when the mail would leave at the earliest if asked for, and when its proposal would
    expire.
    """
    return {name: rfc3339(at) for name, at in found.items() if at is not None}


def find_earlier(
    caller: Caller, mailbox: Mailbox, tool: str, parameters: SendingParameters
) -> Proposed | None:
    """Return the action to which the key led before, or None for a new proposal.

    Raises Problem if the action that the new proposal replaces cannot be replaced, or if its
    callback address cannot be used, or the send time of a mail.
    """
    if parameters.confirm:
        earlier = proposals.replay(
            caller=caller,
            mailbox=mailbox,
            tool=tool,
            key=parameters.idempotency_key,
            request_digest=request_digest(tool, parameters),
        )
        if earlier is not None:
            return build_proposed(earlier, caller, replayed=True)
    check_callback(caller, parameters)
    if parameters.replaces is not None:
        proposals.replaceable(caller=caller, mailbox=mailbox, action_id=parameters.replaces)
    if isinstance(parameters, MailParameters):
        check_send_time(parameters.send_at)
    return None


def _payload(
    message: OutgoingMessage,
    mailbox: Mailbox,
    composed: Composed,
    parameters: MailParameters,
    send_at: datetime | None,
) -> MailPayload:
    request = message.request
    asked: dict[str, Any] = {}
    if isinstance(parameters, AnswerParameters) and parameters.unless_answered:
        if request.kind != "reply":
            raise Problem("invalid_input", NO_QUESTION, errors=(NOT_AN_ANSWER,))
        asked["unless_answered"] = True
    if parameters.follow_up is not None:
        if not provider_for(mailbox).can_find_sent:
            raise Problem("invalid_input", NOBODY_LOOKS, errors=(UNREAD,))
        asked["follow_up"] = StoredFollowUp(**dict(parameters.follow_up))
    return MailPayload(
        version=VERSION,
        kind=KINDS[request.kind],
        mailbox=str(mailbox.id),
        sender=request.from_address,
        to=request.to,
        cc=request.cc,
        bcc=request.bcc,
        subject=request.subject,
        text=request.content.text,
        html=request.content.html,
        attachments=file_digests(message),
        importance=request.importance,
        in_reply_to=request.in_reply_to,
        references=request.references,
        original=composed.original_id,
        reply_all=composed.reply_all,
        comment=composed.comment,
        draft=composed.draft,
        send_at=send_at.isoformat() if send_at else None,
        save_to_sent_items=request.save_to_sent,
        message_id=message.message_id,
        source_sha256=message.sha256,
        **asked,
    )


def _check_copy(mailbox: Mailbox, is_wanted: bool) -> None:
    """Raise Problem if no copy is wanted and the mailbox always keeps one, so that nobody approves
    an impossible mail.
    """
    if is_wanted:
        return
    if mailbox.gets_copies_from_provider or provider_for(mailbox).always_keeps_copy:
        raise Problem(
            "invalid_input",
            "This mailbox keeps a copy of everything it sends.",
            errors=(
                FieldError(
                    field="save_to_sent_items",
                    message=translatable("cannot be false for this mailbox"),
                ),
            ),
        )


def _look_around(
    mailbox: Mailbox, composed: Composed, parameters: SendingParameters, confirmed: Iterable[str]
) -> Context:
    """Return the facts around the message.

    Only a preview without a key says that the same mail is already waiting, because there it may
    prevent a second proposal.
    """
    request = composed.request
    asking = not parameters.confirm and parameters.idempotency_key is None
    fingerprints = previews.fingerprints(request)
    recipients = (*request.to, *request.cc, *request.bcc)
    return replace(
        surroundings(
            mailbox,
            recipients,
            confirmed=confirmed,
            elsewhere=composed.original.reply_to if composed.original else (),
            asks=_asks_mailbox(request.kind, parameters),
        ),
        # The gate looks again when it stores a proposal.
        recent_duplicate=not parameters.confirm
        and (twins.has_recent(mailbox, fingerprints) or twins.has_doubtful(mailbox, fingerprints)),
        open_twin=asking and twins.has_open(mailbox, fingerprints),
        draft_was_sent=composed.draft is not None
        and may_have_sent_draft(mailbox, composed.draft.id),
        draft_from=composed.draft_from,
        original_is_signed=composed.original is not None and composed.original.is_signed,
        left_behind=composed.original.left_behind if composed.original else "",
        reply_all=composed.reply_all,
        prompted_by=all_text(composed.original) if composed.original else "",
        asked_by=composed.original.from_address
        if composed.original and request.kind == "reply"
        else "",
        answers_to=composed.original.reply_to if composed.original else (),
        later=composed.later,
        mine=composed.mine,
        original_is_forged=composed.is_forged,
        unconfirmed=composed.unconfirmed,
    )


def _asks_mailbox(kind: str, parameters: SendingParameters) -> bool:
    """Return True if the mailbox is asked for facts around the mail.

    The preview of an answer reads the original only, because its caller is waiting for that; the
    proposal asks before a person sees the mail.
    """
    return parameters.confirm or kind != "reply"


def request_digest(tool: str, parameters: SendingParameters) -> str:
    """Return a hash that is equal for the same request, independent of the way the mailbox is
    named.
    """
    asked = parameters.model_dump(mode="json", exclude={"mailbox", "idempotency_key", "confirm"})
    if tool != "send_email" and asked.get("save_to_sent_items"):
        asked.pop("save_to_sent_items")
    # They count only if they are given: the digests of keys that are stored stay valid.
    for name in LATER:
        if not asked.get(name, "") and (tool, name) != ("send_email", "send_at"):
            asked.pop(name, None)
    return digest_of({"tool": tool, "parameters": asked})
