"""Attachments from callers: uploaded before and named by a handle, or in base64 inside the
request.
"""

import base64
import binascii

from django.utils import timezone

from accounts.access.audience import lacks_scope
from accounts.access.caller import Caller
from accounts.access.provider_calls import hold_content
from accounts.access.room import LARGE
from accounts.infra.foreign_text import parse_uuid
from accounts.infra.problems import FieldError, Problem
from accounts.infra.texts import translatable
from accounts.models import Mailbox
from approvals.reports.report import READ
from tools.mail.message.compose import MAX_TOTAL_BYTES, Attachment, media_type
from tools.models import Upload
from tools.reading.originals import safe_name
from tools.reading.reads import fetch_attachment
from tools.schemas import MAX_ATTACHMENT_BYTES, AttachmentGiven

TOO_LARGE = translatable("An attachment must be smaller than 4 MB (4,194,304 bytes).")
TOO_LARGE_TOGETHER = translatable(
    "All attachments together must be smaller than %(max_total_bytes)s bytes.",
    max_total_bytes=f"{MAX_TOTAL_BYTES:,}",
)


def keep(caller: Caller, *, name: str, media_type_: str, content: bytes) -> Upload:
    """Keep an uploaded file for a day. Raises `too_large`."""
    if len(content) > MAX_ATTACHMENT_BYTES:
        raise Problem("too_large", TOO_LARGE)
    Upload.objects.filter(expires_at__lt=timezone.now()).delete()
    return Upload.keep(
        owner=caller.user,
        owner_name=caller.name,
        name=name,
        type=media_type(media_type_),
        content=content,
    )


def find(caller: Caller, handle: str) -> Upload | None:
    """Return the unexpired upload of this caller, or None."""
    wanted = parse_uuid(handle)
    if wanted is None:
        return None
    return Upload.objects.filter(
        pk=wanted, owner=caller.user, owner_name=caller.name, expires_at__gt=timezone.now()
    ).first()


def load_attachments(
    caller: Caller, mailbox: Mailbox, given: list[AttachmentGiven]
) -> tuple[Attachment, ...]:
    """Return the attachments of a message. Each size, the total and the room are checked on the way."""
    found: list[Attachment] = []
    total = counted = 0
    for index, each in enumerate(given):
        found.append(_load_one(caller, mailbox, index, each))
        total += len(found[-1].content)
        if total > MAX_TOTAL_BYTES:
            raise Problem("too_large", TOO_LARGE_TOGETHER)
        if total - counted > LARGE:
            hold_content(total - counted)
            counted = total
    return tuple(found)


def _load_one(caller: Caller, mailbox: Mailbox, index: int, given: AttachmentGiven) -> Attachment:
    if given.handle is not None:
        upload = find(caller, given.handle)
        if upload is None:
            raise _problem_of(
                index, "handle", translatable("is unknown or has expired: upload it again")
            )
        return Attachment(
            name=given.name or upload.name, type=upload.type, content=bytes(upload.content)
        )
    if given.attachment_id is not None:
        return _load_of_mail(caller, mailbox, index, given)
    assert given.name is not None, "the schema asks for a name"
    if given.text is not None:
        type_ = given.type if "type" in given.model_fields_set else "text/plain"
        content = given.text.encode()
    else:
        assert given.content_base64 is not None, "the schema asks for one of them"
        type_ = given.type
        try:
            content = base64.b64decode(given.content_base64, validate=True)
        except (binascii.Error, ValueError):
            raise _problem_of(
                index,
                "content_base64",
                translatable("is not base64 (did you mean text? It takes the words themselves)"),
            ) from None
    if len(content) > MAX_ATTACHMENT_BYTES:
        raise Problem("too_large", TOO_LARGE)
    return Attachment(name=given.name, type=media_type(type_), content=content)


def _load_of_mail(
    caller: Caller, mailbox: Mailbox, index: int, given: AttachmentGiven
) -> Attachment:
    """Return a file of a mail in the mailbox, byte for byte, for a caller who may read mail."""
    if not caller.may(READ):
        raise lacks_scope(caller.surface, held=caller.scopes, needed=READ)
    assert given.message_id is not None, "the schema asks for both"
    assert given.attachment_id is not None, "the schema asks for both"
    try:
        info, content = fetch_attachment(mailbox, given.message_id, given.attachment_id)
    except Problem as problem:
        if problem.code != "not_found":
            raise
        raise _problem_of(
            index,
            "attachment_id",
            translatable("is unknown: list_attachments names those of a mail"),
        ) from None
    return Attachment(
        name=given.name or safe_name(info.name), type=media_type(info.type), content=content
    )


def _problem_of(index: int, field: str, message: str) -> Problem:
    return Problem(
        "invalid_input",
        "An attachment is not valid.",
        errors=(FieldError(field=f"attachments.{index}.{field}", message=message),),
    )
