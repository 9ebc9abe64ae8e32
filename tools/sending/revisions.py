"""The edit of a waiting mail by a reviewer: the fields, and the mail with its changes, composed and
checked again.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC
from typing import Any, Literal
from urllib.parse import unquote

from pydantic import TypeAdapter, ValidationError

from accounts.infra.problems import FieldError, Problem
from accounts.infra.texts import join, load_texts, translatable
from accounts.models import Mailbox
from approvals.core.types import (
    Changes,
    EditField,
    FilesGiven,
    HeldFile,
    Preview,
    PreviewWarning,
    Proposal,
    Revisable,
)
from approvals.gate import twins
from approvals.gate.rules.policy import policy_of
from tools.mail.message.compose import (
    MAX_TOTAL_BYTES,
    Attachment,
    OutgoingMessage,
    Request,
    attachments_in,
    media_type,
    names_in,
)
from tools.mail.message.content import Content, as_html, find_quote
from tools.mail.message.markup import author_content
from tools.mail.text.addresses import domain_of
from tools.schemas import (
    MAX_ATTACHMENT_BYTES,
    EditedCopies,
    EditedRecipients,
    FileName,
    Moment,
    RevisedBody,
    Subject,
)
from tools.sending import preview as previews
from tools.sending.payload import FileDigest, MailPayload
from tools.sending.requests import check_send_time, encode
from tools.sending.surroundings import surroundings
from tools.sending.uploads import TOO_LARGE, TOO_LARGE_TOGETHER

# These warnings are about other mail than this one, so they stay valid for the edited text.
CARRIED_OVER = (
    "draft_was_sent",
    "draft_sender",
    "may_have_been_sent",
    "signature_lost",
    "original_shortened",
    "injection",
    "thread_moved",
    "thread_unread",
    "answered_already",
    "reply_to_differs",
    "sender_unconfirmed",
)
# These warnings are about the HTML as it was proposed, of which only the cleaned HTML is stored. They
# stay valid for an edit that leaves the body as it is.
OF_THE_BODY = (
    "link_mismatch",
    "long_query",
    "remote_content",
    "alternatives_differ",
    "hidden_text",
    "content_removed",
)
LABELS = {
    "to": translatable("To"),
    "cc": translatable("Cc"),
    "bcc": translatable("Bcc"),
    "subject": translatable("Subject"),
    "body_type": translatable("Written as"),
    "body": translatable("Text"),
    "attachments": translatable("Attachments"),
    "send_at": translatable("Send later"),
}
ENVELOPE = ("to", "cc", "bcc")
BODY = {"body", "body_type"}
WrittenAs = Literal["text", "html"]
RULES: dict[str, TypeAdapter[Any]] = {
    "to": TypeAdapter(EditedRecipients),
    "cc": TypeAdapter(EditedCopies),
    "bcc": TypeAdapter(EditedCopies),
    "subject": TypeAdapter(Subject),
    "body_type": TypeAdapter(WrittenAs),
    "body": TypeAdapter(RevisedBody),
    "send_at": TypeAdapter(Moment | None),
}
NAME_OF_FILE: TypeAdapter[str] = TypeAdapter(FileName)


def fields(payload: MailPayload) -> tuple[EditField, ...]:
    """Return the form of a mail with its present values.

    An HTML mail is edited as HTML, with its quote below.
    """
    html, leaves = payload.html, payload.leaves_from
    values = {
        **{name: "\n".join(addresses) for name, addresses in _envelope(payload).items()},
        "subject": payload.subject,
        "body_type": "text" if html is None else "html",
        "body": payload.text if html is None else html,
    }
    return (
        *(
            EditField(
                name=each,
                label=LABELS[each],
                sort="addresses",
                value=values[each],
                folded=each != "to",
            )
            for each in ENVELOPE
        ),
        EditField(name="subject", label=LABELS["subject"], sort="line", value=values["subject"]),
        EditField(
            name="body",
            label=LABELS["body"],
            sort="text" if html is None else "html",
            value=values["body"],
            reading=payload.text,
        ),
        EditField(
            name="body_type",
            label=LABELS["body_type"],
            sort="choice",
            value=values["body_type"],
            choices=(("text", translatable("Plain text")), ("html", "HTML")),
        ),
        EditField(
            name="attachments",
            label=LABELS["attachments"],
            sort="files",
            files=tuple(HeldFile(**file.as_json()) for file in payload.attachments),
        ),
        EditField(
            name="send_at",
            label=LABELS["send_at"],
            sort="moment",
            folded=True,
            value=payload.send_at or "",
            reading=f"{leaves.astimezone(UTC):%Y-%m-%d %H:%M} UTC" if leaves else "",
        ),
    )


def revise_mail(current: Revisable, changes: Changes) -> Proposal:
    """Return the mail with these changes. Thread and Message-ID stay, because nothing has left with
    them.
    """
    payload = MailPayload.from_json(current.payload)
    mailbox = Mailbox.objects.get(pk=payload.mailbox)
    changed = _filter_changed(payload, changes)
    send_at = payload.leaves_from
    if "send_at" in changed:
        send_at = check_send_time(changed["send_at"])
    request = _request(payload, mailbox, current.blob, changed)
    message = encode(request, message_id=payload.message_id)
    quoted = _find_own_quote(payload, message.recipients)
    confirmed = policy_of(mailbox).confirmed_domains
    fingerprints = previews.fingerprints(request)
    around = replace(
        surroundings(mailbox, message.recipients, confirmed=confirmed),
        quoted=quoted,
        reply_all=payload.reply_all,
        recent_duplicate=twins.has_recent(mailbox, fingerprints, besides=current.id)
        or twins.has_doubtful(mailbox, fingerprints, besides=current.id),
    )
    preview = previews.of_message(
        message,
        around,
        conditions=payload.conditions,
        around=_keep_original(current.preview),
    )
    if not changed.keys() & BODY:
        preview = _keep_hidden(preview, current.preview)
    carried = _carry_over(current.preview, preview, message, changed)
    return Proposal(
        kind=payload.kind,
        payload=payload.with_content(message, send_at=send_at).as_json(),
        preview=replace(preview, warnings=(*preview.warnings, *carried)),
        message_id=message.message_id,
        blobs=(message.source,),
        send_at=send_at,
    )


def _keep_hidden(preview: Preview, before: Mapping[str, Any]) -> Preview:
    """Return the preview with the texts that the body hid when it was proposed."""
    now = preview.parts.get("hidden", [])
    earlier = (before.get("parts") or {}).get("hidden", [])
    kept = [each for each in earlier if each["fate"] != "leaves" and each not in now]
    if not kept:
        return preview
    return replace(preview, parts={**preview.parts, "hidden": [*now, *kept]})


def _carry_over(
    before: Mapping[str, Any],
    now: Preview,
    message: OutgoingMessage,
    changed: Mapping[str, Any],
) -> tuple[PreviewWarning, ...]:
    """Return the warnings of the present revision that still hold and that nothing finds again."""
    found = {warning.code for warning in now.warnings}
    domains = {domain_of(address) for address in message.recipients}
    keeps_body = not changed.keys() & BODY

    def still_holds(warning: PreviewWarning) -> bool:
        match warning.code:
            case "reply_to_differs":
                return not domains.isdisjoint(warning.mark.split())
            case "possible_duplicate":
                return now.fingerprint == before.get("fingerprint")
            case "hidden_text" if warning.severity == "risk":
                return False  # it is about the subject, which was judged again
        return warning.code in CARRIED_OVER or (keeps_body and warning.code in OF_THE_BODY)

    told = [PreviewWarning(**load_texts(each)) for each in before.get("warnings", [])]
    return tuple(each for each in told if each.code not in found and still_holds(each))


def _keep_original(preview: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the present preview says about the original mail: an edit does not change it."""
    parts = preview.get("parts") or {}
    return {name: parts[name] for name in ("original",) if name in parts}


def _find_own_quote(payload: MailPayload, recipients: tuple[str, ...]) -> str:
    """Return the quote that mailhub wrote into this answer, if nobody new receives it."""
    if payload.kind != "mail.reply" or not payload.original:
        return ""
    is_for_same = set(recipients) <= set(payload.recipients)
    return find_quote(payload.text, payload.comment) if is_for_same else ""


def _filter_changed(payload: MailPayload, changes: Changes) -> dict[str, Any]:
    """Return the changed values, each checked like that of a proposal; unchanged values are not
    judged.
    """
    present = {field.name: field for field in fields(payload)}
    errors: list[FieldError] = []
    found: dict[str, Any] = {}
    for name, given in changes.items():
        field = present.get(name)
        if field is None or (field.sort == "files") is not isinstance(given, FilesGiven):
            raise Problem(
                "invalid_input",
                "There is no such field.",
                errors=(
                    FieldError(field=name, message=translatable("is not a field of this action")),
                ),
            )
        if isinstance(given, FilesGiven):
            # Each file by itself: two with the same bytes have different names.
            if given.added or Counter(given.kept) != Counter(each.key for each in field.files):
                found[name] = given
            continue
        typed = _normalize_newlines(given)
        value = re.split(r"[\s,;]+", typed.strip(" \n,;")) if field.sort == "addresses" else typed
        value = [address for address in value if address] if isinstance(value, list) else value
        if value == (
            field.value.split() if field.sort == "addresses" else _normalize_newlines(field.value)
        ):
            continue
        is_moment = field.sort == "moment"
        try:
            found[name] = RULES[name].validate_python(
                (value or None) if is_moment else value, strict=not is_moment
            )
        except ValidationError as error:
            errors += (
                _error(name, value, one)
                for one in error.errors(include_url=False, include_context=False)
            )
    if errors:
        raise Problem("invalid_input", "Some fields are not valid.", errors=tuple(errors))
    return found


def _normalize_newlines(text: str) -> str:
    """Return the text with LF: a form sends its lines with CRLF."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _error(name: str, value: Any, error: Any) -> FieldError:
    """Return the error with the address in it, because a form has one field for all addresses."""
    message = error["msg"].removeprefix("Value error, ")
    if isinstance(value, list) and error["loc"]:
        message = join(f"{value[int(error['loc'][0])]}:", message)
    return FieldError(field=name, message=message)


def _request(
    payload: MailPayload,
    mailbox: Mailbox,
    blob: Callable[[str], bytes],
    changed: Mapping[str, Any],
) -> Request:
    to, cc, bcc = (
        tuple(changed.get(name, addresses)) for name, addresses in _envelope(payload).items()
    )
    everybody = [address.lower() for address in (*to, *cc, *bcc)]
    if len(set(everybody)) != len(everybody) and set(ENVELOPE) & set(changed):
        raise Problem(
            "invalid_input",
            "Some fields are not valid.",
            errors=(
                FieldError(
                    field="to",
                    message=translatable("an address stands in To, Cc and Bcc more than once"),
                ),
            ),
        )
    source = blob(payload.source_sha256)
    content = _content(payload, changed)
    present = _in_order(attachments_in(source), payload.attachments)
    if changed.keys() & BODY:
        # A picture that the new text no longer shows becomes an ordinary attachment.
        named = unquote(content.html or "")
        present = tuple(
            file if file.content_id in named else replace(file, content_id="") for file in present
        )
    return Request(
        kind=payload.sort,
        from_address=payload.sender,
        from_name=mailbox.name,
        to=to,
        cc=cc,
        bcc=bcc,
        names=names_in(source),
        subject=changed.get("subject", payload.subject),
        content=content,
        importance=payload.importance,
        attachments=_attachments(present, changed.get("attachments")),
        in_reply_to=payload.in_reply_to,
        references=payload.references,
        save_to_sent=payload.save_to_sent_items,
    )


def _envelope(payload: MailPayload) -> dict[str, tuple[str, ...]]:
    return {"to": payload.to, "cc": payload.cc, "bcc": payload.bcc}


def _content(payload: MailPayload, changed: Mapping[str, Any]) -> Content:
    """Return the body as it was typed in.

    If only the body type changed, convert the present text.
    """
    was_html = payload.html is not None
    sort: WrittenAs = changed.get("body_type", "html" if was_html else "text")
    if "body" in changed:
        return author_content(changed["body"], sort)
    if "body_type" in changed:
        return author_content(as_html(payload.text) if sort == "html" else payload.text, sort)
    # The quote that mailhub wrote into an answer returns to its author.
    own_html = payload.kind != "mail.reply" or not payload.original
    return Content(
        body=payload.text,
        text=payload.text,
        html=payload.html,
        proposed_html=(payload.html or "") if own_html else "",
    )


def _in_order(found: Iterable[Attachment], seals: tuple[FileDigest, ...]) -> tuple[Attachment, ...]:
    """Return the attachments in the order of the proposal: inside the message, pictures of the HTML
    come first.
    """
    places = {(seal.name, seal.sha256): place for place, seal in reversed(list(enumerate(seals)))}
    return tuple(sorted(found, key=lambda each: places.get((each.name, each.sha256), len(seals))))


def _attachments(
    present: tuple[Attachment, ...], given: FilesGiven | None
) -> tuple[Attachment, ...]:
    if given is None:
        return present
    wanted, kept = Counter(given.kept), []
    for attachment in present:
        key = f"{attachment.sha256}:{attachment.name}"  # HeldFile.key
        if wanted[key] > 0:
            wanted[key] -= 1
            kept.append(attachment)
    if wanted.total():
        raise _wrong_file("is not among those of this mail")
    for file in given.added:
        try:
            name = NAME_OF_FILE.validate_python(file.name)
        except ValidationError as error:
            raise _wrong_file(error.errors()[0]["msg"].removeprefix("Value error, ")) from None
        if len(file.content) > MAX_ATTACHMENT_BYTES:
            raise Problem(
                "too_large",
                TOO_LARGE,
                errors=(FieldError(field="attachments", message=translatable("is too large")),),
            )
        kept.append(Attachment(name=name, type=media_type(file.type), content=file.content))
    if sum(len(attachment.content) for attachment in kept) > MAX_TOTAL_BYTES:
        raise Problem("too_large", TOO_LARGE_TOGETHER)
    return tuple(kept)


def _wrong_file(message: str) -> Problem:
    return Problem(
        "invalid_input",
        "A file is not valid.",
        errors=(FieldError(field="attachments", message=message),),
    )
