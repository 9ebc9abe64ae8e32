"""The objects that mailhub answers with. `raw` holds each one as it came, with all members."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# The states in which nothing happens to an action any more.
FINAL = frozenset({"succeeded", "failed", "rejected", "cancelled", "expired", "superseded"})


class MailhubError(Exception):
    """A problem document (RFC 9457), or an answer that is none.

    `code` is mailhub's word, such as `not_found`; it is empty if the answer was not from mailhub.
    `errors` has the `field` and `message` of each wrong parameter, which the text of the exception
    says too. `retry_after` is in seconds.
    """

    def __init__(
        self,
        detail: str,
        *,
        code: str = "",
        status: int = 0,
        errors: tuple[Mapping[str, str], ...] = (),
        retry_after: float | None = None,
    ) -> None:
        named = ((each.get("field"), each.get("message", "")) for each in errors)
        wrong = (f"{field}: {message}." if field else f"{message}." for field, message in named)
        super().__init__(" ".join((detail, *wrong)))
        self.detail, self.code, self.status = detail, code, status
        self.errors, self.retry_after = errors, retry_after


@dataclass(frozen=True)
class Action:
    """A mail or command that waits for a person, or did.

    `state` is one of pending, approved, executing, unknown, or of `FINAL`. `review_url` is the page
    on which a signed-in person decides. `review` is what a person said: `verdict`, `by`, `note`,
    `changed`.
    """

    id: str
    state: str
    tool: str
    mailbox: str
    review_url: str
    created_at: str
    expires_at: str
    receipt: Mapping[str, Any] | None
    result: Mapping[str, Any] | None
    error: Mapping[str, Any] | None
    review: Mapping[str, Any] | None
    metadata: Mapping[str, str]
    raw: Mapping[str, Any]

    @property
    def is_final(self) -> bool:
        return self.state in FINAL

    @property
    def asks_for_changes(self) -> bool:
        """A person asks for changes: propose again, with `replaces` set to this id."""
        verdict = (self.review or {}).get("verdict")
        return self.state == "pending" and verdict == "changes_requested"

    @classmethod
    def read(cls, raw: Mapping[str, Any]) -> Action:
        """Return the action of an answer of mailhub."""
        return cls(
            id=raw["id"],
            state=raw["state"],
            tool=raw["tool"],
            mailbox=raw["mailbox"],
            review_url=raw["review_url"],
            created_at=raw["created_at"],
            expires_at=raw["expires_at"],
            receipt=raw.get("receipt"),
            result=raw.get("result"),
            error=raw.get("error"),
            review=raw.get("review"),
            metadata=raw.get("metadata") or {},
            raw=raw,
        )


@dataclass(frozen=True)
class Preview:
    """A mail as a person would see it; nothing is stored. `digest` is of this preview only."""

    text: str
    digest: str
    warnings: tuple[Mapping[str, str], ...]
    raw: Mapping[str, Any]

    @classmethod
    def read(cls, raw: Mapping[str, Any]) -> Preview:
        """Return the preview of an answer of mailhub."""
        shown = raw["preview"]
        return cls(
            text=str(shown["text"]),
            digest=str(shown["digest"]),
            warnings=tuple(raw.get("warnings", ())),
            raw=raw,
        )


@dataclass(frozen=True)
class Upload:
    """An uploaded file; give `{"handle": upload.handle}` as an attachment within a day."""

    handle: str
    name: str
    size: int
    raw: Mapping[str, Any]

    @classmethod
    def read(cls, raw: Mapping[str, Any]) -> Upload:
        """Return the upload of an answer of mailhub."""
        return cls(handle=str(raw["handle"]), name=str(raw["name"]), size=int(raw["size"]), raw=raw)
