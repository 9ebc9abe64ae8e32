"""The preview of a mail as a value. Pure."""

import hashlib
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from accounts.infra.texts import load_texts
from approvals.core.answers import Warned
from approvals.core.types import Preview, PreviewWarning, Rendered, Target
from tools.answers import MailPreview, PreviewedMail
from tools.mail.message.compose import OutgoingMessage, Request
from tools.mail.message.content import Original
from tools.mail.message.hidden import HiddenText, as_parts
from tools.mail.message.markup import compare_texts
from tools.mail.parsers import is_small, run
from tools.mail.text.addresses import domain_of
from tools.warnings import Context, judge_message
from tools.warnings.context import JUDGED_CHARACTERS

EXCERPT = 200
HIDDEN = (
    "This mail takes its content from the mailbox, which only the scope mail:read shows. "
    "Nothing has been sent."
)


def fingerprints(request: Request) -> tuple[str, str]:
    """Return two hashes, of the words that leave and of the body as it was given. One is equal for
    two mails that a person would call the same.

    They cover the recipients in any order, the subject in any case, and the first 200 characters.
    """
    content = request.content
    return _fingerprint(request, content.text), _fingerprint(request, content.body)


def _fingerprint(request: Request, text: str) -> str:
    to = ",".join(sorted(address.lower() for address in request.to))
    same = "\n".join([to, request.subject.lower(), text[:EXCERPT]])
    return hashlib.sha256(same.encode()).hexdigest()


def of_message(
    message: OutgoingMessage,
    context: Context,
    *,
    conditions: Mapping[str, Any],
    around: Mapping[str, Any] | None = None,
) -> Preview:
    """Return the preview of the message, with its conditions and the facts around it as parts.

    Raises Unparsable.
    """
    request = message.request
    found, hidden = _judge(message, context)
    parts = {
        "from": request.from_address,
        "from_name": request.from_name,
        "importance": request.importance,
        "request": {
            "from": request.from_address,
            "importance": request.importance,
            "save_to_sent_items": request.save_to_sent,
            **conditions,
        },
    }
    return Preview(
        title=request.subject,
        targets=targets_of(request, context.own_domains),
        excerpt=request.content.text[:EXCERPT],
        fingerprint=fingerprints(request)[0],
        parts=parts | dict(around or {}) | ({"hidden": as_parts(hidden)} if hidden else {}),
        warnings=tuple(PreviewWarning(**load_texts(each)) for each in found),
    )


def targets_of(request: Request, own_domains: Container[str]) -> tuple[Target, ...]:
    return tuple(
        Target(
            address=address,
            role=role,
            name="" if role == "bcc" else request.names.get(address.lower(), ""),
            external=domain_of(address) not in own_domains,
        )
        for role, addresses in (("to", request.to), ("cc", request.cc), ("bcc", request.bcc))
        for address in addresses
    )


def render(text: str, html: str | None, source: bytes) -> Rendered:
    """Return the content of a mail or draft for the review page."""
    passages, unseen = compare_texts(text, html) if html is not None else ((), ())
    return Rendered(
        text=text,
        html=html,
        source=source.decode("ascii", "replace"),
        size=len(source),
        passages=passages,
        unseen=unseen,
    )


def _judge(
    message: OutgoingMessage, context: Context
) -> tuple[tuple[dict[str, Any], ...], tuple[HiddenText, ...]]:
    """Return the warnings as JSON and the hidden text. Raises Unparsable."""
    content = message.request.content
    small = is_small(content.text, content.html, content.proposed_html, context.prompted_by)
    if small:
        return run(judge_message, message, context, small=True)
    # The beginning of a file shows its type; sending more of it to the parser process only costs
    # time.
    files = tuple(
        replace(each, content=each.content[: JUDGED_CHARACTERS + 1])
        for each in message.request.attachments
    )
    without_files = replace(
        message, source=b"", request=replace(message.request, attachments=files)
    )
    return run(judge_message, without_files, context)


def sentence(message: OutgoingMessage, original: Original | None, *, send_at: str = "") -> str:
    """Return the preview in one paragraph. It names every recipient and each choice that is not the
    usual one, and ends 'Nothing has been sent.'
    """
    request = message.request
    count = len(message.recipients)
    people = f"{count} recipient{'s' if count != 1 else ''}"
    match request.kind:
        case "send":
            parts = [f"Send to {people}: {', '.join(request.to)}."]
        case "reply":
            about = f"{original.subject} (from {original.from_address})" if original else ""
            parts = [f"Reply to {people}: {', '.join(request.to)}. Original: {about}."]
        case "forward":
            about = f"{original.subject} (from {original.from_address})" if original else ""
            attached = "yes" if request.attachments else "no"
            parts = [f"Forward of: {about} to: {', '.join(request.to)}. Attachments: {attached}."]
    parts += [f"Cc: {', '.join(request.cc)}."] if request.cc else []
    parts += [f"Bcc: {', '.join(request.bcc)}."] if request.bcc else []
    text = request.content.text
    parts += [f"Subject: {request.subject}.", f"Text ({len(text)} characters): “{text[:EXCERPT]}”."]
    parts += [f"Importance: {request.importance}."] if request.importance != "normal" else []
    parts += [f"It leaves at {send_at} at the earliest."] if send_at else []
    parts += [] if request.save_to_sent else ["No copy is kept in Sent."]
    return " ".join([*parts, "Nothing has been sent."])


def as_result(
    message: OutgoingMessage,
    preview: Preview,
    *,
    mailbox: str,
    digest: str,
    original: Original | None = None,
    shows_mail: bool = True,
    times: Mapping[str, str],
    notes: Sequence[str] = (),
) -> MailPreview:
    """Return the contract's `preview` result; without `shows_mail` nothing in it comes from a mail of
    the mailbox.
    """
    request = message.request
    choices = {**preview.parts["request"], **times}
    if not shows_mail:
        hidden = {
            "kind": request.kind,
            "mailbox": mailbox,
            "to": list(request.to) if request.kind == "forward" else [],
            "subject": "",
            "body_excerpt": "",
            "body_chars": len(request.content.text),
            **choices,
            "digest": digest,
            "text": HIDDEN,
        }
        warnings = as_warnings(preview, shows_mail=False)
        return {"status": "preview", "preview": cast(PreviewedMail, hidden), "warnings": warnings}
    shown: dict[str, Any] = {
        "kind": request.kind,
        "mailbox": mailbox,
        "to": list(request.to),
        "subject": request.subject,
        "body_excerpt": request.content.text[:EXCERPT],
        "body_chars": len(request.content.text),
        **choices,
        "digest": digest,
        "text": sentence(message, original, send_at=times.get("send_at", "")),
    }
    if request.from_name:
        shown["from_name"] = request.from_name
    if request.names:
        shown["names"] = dict(request.names)
    if request.cc:
        shown["cc"] = list(request.cc)
    if request.bcc:
        shown["bcc"] = list(request.bcc)
    if request.attachments:
        shown["attachments"] = [
            {name: value for name, value in a.as_json().items() if name != "type"}
            for a in request.attachments
        ]
    if original is not None:
        shown["original"] = {"subject": original.subject, "from": original.from_address}
        if request.kind == "reply" and len(message.recipients) > 1:
            shown["original"] |= {"to": list(original.to)} | (
                {"cc": list(original.cc)} if original.cc else {}
            )
        if request.kind == "forward":
            shown["original"]["has_attachments"] = bool(request.attachments)
    result: MailPreview = {
        "status": "preview",
        "preview": cast(PreviewedMail, shown),
        "warnings": as_warnings(preview),
    }
    if notes:
        result["notes"] = list(notes)
    return result


def as_warnings(preview: Preview, *, shows_mail: bool = True) -> list[Warned]:
    """Return the warnings; their titles only if nothing may come from a mail of the mailbox."""
    return [
        {"code": w.code, "text": f"{w.title} {w.text}" if shows_mail else str(w.title)}
        for w in preview.warnings
    ]
