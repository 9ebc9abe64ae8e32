"""Attachments from callers: uploaded before and named by a handle, or in base64 inside the
request.
"""

import base64
import binascii
from uuid import UUID

from django.utils import timezone

from accounts.access.caller import Caller
from accounts.infra.problems import FieldError, Problem
from accounts.infra.texts import translatable
from tools.mail.message.compose import MAX_TOTAL_BYTES, Attachment, media_type
from tools.models import Upload
from tools.schemas import MAX_ATTACHMENT_BYTES, AttachmentGiven

TOO_LARGE = translatable("An attachment must be smaller than 4 MB (4,194,304 bytes).")


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
    try:
        wanted = UUID(handle)
    except ValueError:
        return None
    return Upload.objects.filter(
        pk=wanted, owner=caller.user, owner_name=caller.name, expires_at__gt=timezone.now()
    ).first()


def load_attachments(caller: Caller, given: list[AttachmentGiven]) -> tuple[Attachment, ...]:
    """Return the attachments of a message after a check of each size and the total."""
    found = tuple(_load_one(caller, index, each) for index, each in enumerate(given))
    if sum(len(a.content) for a in found) > MAX_TOTAL_BYTES:
        raise Problem(
            "too_large",
            translatable(
                "All attachments together must be smaller than %(max_total_bytes)s bytes.",
                max_total_bytes=f"{MAX_TOTAL_BYTES:,}",
            ),
        )
    return found


def _load_one(caller: Caller, index: int, given: AttachmentGiven) -> Attachment:
    if given.handle is not None:
        upload = find(caller, given.handle)
        if upload is None:
            raise _problem_of(
                index, "handle", translatable("is unknown or has expired: upload it again")
            )
        return Attachment(
            name=given.name or upload.name, type=upload.type, content=bytes(upload.content)
        )
    assert given.content_base64 is not None, "the schema asks for one of them"
    assert given.name is not None, "the schema asks for a name"
    try:
        content = base64.b64decode(given.content_base64, validate=True)
    except (binascii.Error, ValueError):
        raise _problem_of(index, "content_base64", translatable("is not base64")) from None
    if len(content) > MAX_ATTACHMENT_BYTES:
        raise Problem("too_large", TOO_LARGE)
    return Attachment(name=given.name, type=media_type(given.type), content=content)


def _problem_of(index: int, field: str, message: str) -> Problem:
    return Problem(
        "invalid_input",
        "An attachment is not valid.",
        errors=(FieldError(field=f"attachments.{index}.{field}", message=message),),
    )
