"""What a person will see, as a value. Pure."""

import hashlib
from typing import Any

from approvals.types import Preview, Target
from tools import warnings
from tools.addresses import domain_of
from tools.compose import OutgoingMessage

EXCERPT = 200


def fingerprint(to: tuple[str, ...], subject: str, body: str) -> str:
    """Equal for two mails a person would call the same: recipients in any order, subject in any case, the first
    200 characters of the body."""
    same = "\n".join([",".join(sorted(a.lower() for a in to)), subject.lower(), body[:EXCERPT]])
    return hashlib.sha256(same.encode()).hexdigest()


def of_message(message: OutgoingMessage, context: warnings.Context) -> Preview:
    request = message.request
    targets = tuple(
        Target(address=address, role=role, external=domain_of(address) not in context.own_domains)
        for role, addresses in (("to", request.to), ("cc", request.cc), ("bcc", request.bcc))
        for address in addresses
    )
    return Preview(
        title=request.subject,
        targets=targets,
        excerpt=message.text[:EXCERPT],
        fingerprint=fingerprint(request.to, request.subject, request.body),
        parts={"from": request.from_address, "from_name": request.from_name, "importance": request.importance},
        warnings=warnings.of(message, context),
    )


def sentence(message: OutgoingMessage) -> str:
    """The preview in one paragraph; it names every recipient and ends 'Nothing has been sent.'"""
    request = message.request
    count = len(message.recipients)
    parts = [f"Send to {count} recipient{'s' if count != 1 else ''}: {', '.join(request.to)}."]
    parts += [f"Cc: {', '.join(request.cc)}."] if request.cc else []
    parts += [f"Bcc: {', '.join(request.bcc)}."] if request.bcc else []
    parts += [f"Subject: {request.subject}.", f"Text ({len(message.text)} characters): “{message.text[:EXCERPT]}”."]
    return " ".join([*parts, "Nothing has been sent."])


def as_result(message: OutgoingMessage, preview: Preview, *, mailbox: str, digest: str) -> dict[str, Any]:
    """The contract's `preview` result."""
    request = message.request
    shown: dict[str, Any] = {
        "kind": "send", "mailbox": mailbox, "from": request.from_address, "to": list(request.to),
        "cc": list(request.cc), "bcc": list(request.bcc), "subject": request.subject,
        "body_excerpt": message.text[:EXCERPT], "body_chars": len(message.text), "digest": digest,
        "text": sentence(message),
    }  # fmt: skip
    for optional in ("cc", "bcc"):
        if not shown[optional]:
            del shown[optional]
    return {"status": "preview", "preview": shown, "warnings": as_warnings(preview)}


def as_warnings(preview: Preview) -> list[dict[str, str]]:
    return [{"code": w.code, "text": f"{w.title} {w.text}"} for w in preview.warnings]
