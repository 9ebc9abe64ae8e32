"""The bytes that a payload names by their hash, encrypted in their rows."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID, uuid4

import structlog

from accounts.infra.problems import Problem
from accounts.infra.texts import translatable
from approvals.models import Blob

log = structlog.get_logger(__name__)

RETRY_SECONDS = 30


class ContentUnavailable(Problem):
    """Raised if the bytes are not those that were stored; `reason` is the code in the `error` of an
    action.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__("transient", detail, retry_after=RETRY_SECONDS)
        self.reason = reason


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """The rows of an action's bytes, not saved yet."""

    action_id: UUID
    rows: tuple[Blob, ...]

    def save(self) -> None:
        """Add the rows in the caller's transaction; rows that are there already are kept."""
        Blob.objects.bulk_create(self.rows, ignore_conflicts=True)


def prepare(contents: Iterable[bytes], *, action_id: UUID | None = None) -> Prepared:
    """Return the rows of these bytes, for a new action or the given one."""
    action_id = action_id or uuid4()
    by_hash = {hashlib.sha256(content).hexdigest(): content for content in contents}
    rows = [Blob(action_id=action_id, sha256=each, content=by_hash[each]) for each in by_hash]
    return Prepared(action_id=action_id, rows=tuple(rows))


def read(row: Blob) -> bytes:
    """Return the bytes of a row, whose hash has been compared.

    Raises ContentUnavailable and CannotDecrypt.
    """
    content = bytes(row.content)
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
