"""The bytes that a payload names by their hash: in their row, or in a bucket under a name in the row.

A call of the bucket may take seconds, so `prepare`, `read`, `rewrite` and `remove_unused` are called
outside transactions. `Prepared.save` and `discard` belong to the caller's transaction.

Each object has a row of `UnusedObject` whenever no committed Blob names it. A crash between two
steps therefore leaves no object that nobody removes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, cast
from uuid import UUID, uuid4

import structlog
from django.conf import settings
from django.core.files.base import ContentFile
from django.core.files.storage import storages
from django.db import transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from accounts.infra.credentials import CannotDecrypt
from accounts.infra.fields import EncryptedBinaryField
from accounts.infra.keys import first_key_id
from accounts.infra.problems import Problem
from accounts.infra.texts import translatable
from approvals.models import Blob, UnusedObject

if TYPE_CHECKING:  # it loads boto3
    from accounts.infra.bucket import Bucket

log = structlog.get_logger(__name__)

UNREACHABLE = "content_unreachable"
BUCKET = "messages"  # its name among Django's storages
# No transaction that names an object takes as long.
UNNAMED_AT_MOST = timedelta(days=1)
AGAIN = timedelta(minutes=5)  # after a failed removal
READ_AT_MOST = timedelta(minutes=10)  # a process may have read the name before it changed
RETRY_SECONDS = 30
ROWS = 20  # each may hold a large file


class ContentUnavailable(Problem):
    """Raised if the bytes cannot be had now; `reason` is the code in the `error` of an action."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__("transient", detail, retry_after=RETRY_SECONDS)
        self.reason = reason


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """The rows of an action's bytes, not saved yet; bytes for the bucket are there already."""

    action_id: UUID
    rows: tuple[Blob, ...]

    def save(self) -> None:
        """Add the rows in the caller's transaction; rows that are there already are kept."""
        # Without ids in the answer, nothing waits for it.
        Blob.objects.bulk_create(self.rows, ignore_conflicts=True)
        _take_into_use(row.stored_as for row in self.rows)


def prepare(contents: Iterable[bytes], *, action_id: UUID | None = None) -> Prepared:
    """Return the rows of these bytes, for a new action or the given one.

    Raises ContentUnavailable if the bucket does not take them.
    """
    new = action_id is None
    action_id = action_id or uuid4()
    by_hash = {hashlib.sha256(content).hexdigest(): content for content in contents}
    if settings.MAILHUB_CONTENT_STORE == "database":
        rows = [Blob(action_id=action_id, sha256=each, content=by_hash[each]) for each in by_hash]
        return Prepared(action_id=action_id, rows=tuple(rows))
    if not new:
        for sha256 in Blob.objects.filter(action=action_id).values_list("sha256", flat=True):
            by_hash.pop(sha256, None)  # an edit often keeps the bytes
    rows = []
    for sha256, content in by_hash.items():
        row = Blob(action_id=action_id, sha256=sha256)
        row.stored_as = _put(_column().encrypt_value(content, row))
        rows.append(row)
    return Prepared(action_id=action_id, rows=tuple(rows))


def read(row: Blob) -> bytes:
    """Return the bytes of a row, whose hash has been compared.

    Raises ContentUnavailable, and for bytes in the row CannotDecrypt.
    """
    try:
        record = _get(row) if row.stored_as else row.__dict__["content"]
        content = bytes(_column().decrypt_value(record, row))
    except CannotDecrypt:
        if not row.stored_as:
            raise
        content = b""
    # The digest of the payload names the bytes by their hash, so bytes that are only stored under
    # that name need this check.
    if hashlib.sha256(content).hexdigest() != row.sha256:
        log.error("content_changed", action=str(row.action_id))
        raise ContentUnavailable(
            "content_changed",
            translatable(
                "The stored content of this message is not what mailhub stored, or its key is missing."
            ),
        )
    return content


def _get(row: Blob) -> bytes:
    try:
        with _bucket().open(row.stored_as) as file:
            return bytes(file.read())
    except FileNotFoundError:
        log.error("content_missing", action=str(row.action_id))
        raise ContentUnavailable(
            "content_missing",
            translatable("The content of this message is missing in the object storage."),
        ) from None
    except Exception:  # a library of the network may raise anything
        log.exception(UNREACHABLE, action=str(row.action_id))
        raise ContentUnavailable(
            UNREACHABLE,
            translatable("The object storage with the content of this message does not answer."),
        ) from None


def discard(action_id: UUID) -> None:
    """Delete the rows of an action in the caller's transaction; a later sweep removes objects."""
    rows = Blob.objects.filter(action=action_id)
    leave_unused(rows.exclude(stored_as="").values_list("stored_as", flat=True))
    rows.delete()


def leave_unused(names: Iterable[str], *, after: timedelta = timedelta()) -> None:
    """Let the sweep remove these objects, in the caller's transaction."""
    UnusedObject.objects.bulk_create(
        (UnusedObject(name=name, remove_at=Now() + after) for name in names),
        ignore_conflicts=True,
    )


def find_unused() -> QuerySet[UnusedObject]:
    """Return the objects that are due to be removed."""
    return UnusedObject.objects.filter(remove_at__lte=Now())


def remove_unused(key: UUID) -> None:
    """Remove an object that no row names; if that fails, it is tried again after AGAIN."""
    # Moving the time on takes it: a second sweeper finds nothing, and after a crash it is due again.
    if not find_unused().filter(pk=key).update(remove_at=Now() + AGAIN):
        return
    name = UnusedObject.objects.values_list("name", flat=True).get(pk=key)
    if not Blob.objects.filter(stored_as=name).exists():
        _bucket().delete(name)
    UnusedObject.objects.filter(pk=key).delete()


def list_unnamed() -> Iterator[str]:
    """Yield the names of objects that no row names, such as after a restored backup, in slices."""
    last = ""
    while names := _bucket().list_after(last):
        last = names[-1]
        # In this order, because an object that comes into use meanwhile is in the second table then.
        known = {*UnusedObject.objects.filter(name__in=names).values_list("name", flat=True)}
        known |= {*Blob.objects.filter(stored_as__in=names).values_list("stored_as", flat=True)}
        yield from (name for name in names if name not in known)


def list_misplaced() -> Iterator[Blob]:
    """Yield the rows whose bytes are not where new bytes go, in slices."""
    in_bucket = ~Q(stored_as="")
    return _list(~in_bucket if settings.MAILHUB_CONTENT_STORE == "s3" else in_bucket)


def list_on_other_keys() -> Iterator[Blob]:
    """Yield the rows whose bytes are in the bucket, encrypted with another key than the first."""
    return _list(~Q(stored_as="") & ~Q(stored_as__startswith=f"{first_key_id().hex()}/"))


def _list(condition: Q) -> Iterator[Blob]:
    rows, last = Blob.objects.filter(condition).order_by("pk"), 0
    while batch := list(rows.filter(pk__gt=last)[:ROWS]):
        yield from batch
        last = batch[-1].pk


def rewrite(row: Blob, *, in_bucket: bool) -> bool:
    """Encrypt the bytes of a row with the first key, in the bucket or in the row.

    Return False if the row has changed meanwhile. Raises ContentUnavailable and CannotDecrypt.
    """
    content = read(row)
    record = _column().encrypt_value(content, row)
    name = _put(record) if in_bucket else ""
    with transaction.atomic():
        # The bytes never change, but another process may have moved or deleted them.
        mine = Blob.objects.filter(pk=row.pk, stored_as=row.stored_as)
        changed = mine.update(content=None if name else record, stored_as=name)
        if changed:
            _take_into_use([name])
            leave_unused([row.stored_as] if row.stored_as else [], after=READ_AT_MOST)
    return bool(changed)


def _put(record: bytes) -> str:
    """Write a record under a new name, which begins with the id of its key; return the name.

    Raises ContentUnavailable. The object may be there all the same.
    """
    name = f"{first_key_id().hex()}/{uuid4().hex}"
    UnusedObject.objects.create(name=name, remove_at=Now() + UNNAMED_AT_MOST)
    try:
        _bucket().save(name, ContentFile(record))
    except Exception:  # a library of the network may raise anything
        log.exception("object_not_stored")
        raise ContentUnavailable(
            UNREACHABLE,
            "The object storage does not take the content. Nothing was stored. Try again.",
        ) from None
    return name


def _take_into_use(names: Iterable[str]) -> None:
    named = [name for name in names if name]
    if named:
        used = Blob.objects.filter(stored_as__in=named).values("stored_as")
        UnusedObject.objects.filter(name__in=used).delete()


def _bucket() -> Bucket:
    return cast("Bucket", storages[BUCKET])


def _column() -> EncryptedBinaryField:
    column = Blob._meta.get_field("content")
    assert isinstance(column, EncryptedBinaryField)
    return column
