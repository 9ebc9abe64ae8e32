"""All that passes between approvals and a kind of action. Approvals knows no mail."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol
from uuid import UUID

Severity = Literal["notice", "risk"]


@dataclass(frozen=True, kw_only=True)
class Target:
    """Somebody the action reaches. `name` is only what the proposal claims."""

    address: str
    role: str
    name: str = ""
    external: bool = False


@dataclass(frozen=True, kw_only=True)
class PreviewWarning:
    """Something a person should know before deciding; `text` is a sentence without mail content beyond addresses."""

    code: str
    text: str
    title: str = ""
    severity: Severity = "notice"


@dataclass(frozen=True, kw_only=True)
class Preview:
    """What every kind shows, and what the queue, the policy and the comparison of revisions work on.

    `fingerprint` is equal for actions a person would call the same. `parts` is the kind's own, for its template.
    """

    title: str
    targets: tuple[Target, ...]
    excerpt: str
    fingerprint: str
    parts: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[PreviewWarning, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """What a kind hands to `approvals.services.propose`.

    `payload` is JSON and complete: nothing is derived anew after approval. `blobs` are bytes it names by SHA-256.
    `message_id` is the marker by which the effect can be found again.
    """

    kind: str
    payload: Mapping[str, Any]
    preview: Preview
    message_id: str
    blobs: tuple[bytes, ...] = ()
    not_before: Any = None


@dataclass(frozen=True, kw_only=True)
class ApprovedAction:
    """What a kind gets to carry out: the frozen payload, and the call that marks the point of no return.

    `wire_started()` commits that the effect may happen from now on; it raises LeaseLost when another worker has
    taken over, and nothing may be sent then. `blob(sha256)` returns the bytes that the payload names.
    """

    id: UUID
    kind: str
    mailbox_id: UUID
    payload: Mapping[str, Any]
    digest: str
    message_id: str
    wire_started: Callable[[], None]
    blob: Callable[[str], bytes]


class LeaseLost(Exception):
    """Another worker holds the action now."""


Verdict = Literal["accepted", "refused", "not_sent", "unknown"]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What is known about the effect.

    accepted: it happened. refused: a definite no. not_sent: it certainly did not happen and may be tried again,
    after `retry_after` seconds if the other side said so. unknown: it may or may not have happened.
    """

    verdict: Verdict
    code: str = ""
    detail: str = ""
    retry_after: int | None = None
    required_scope: str | None = None
    receipt: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Rendered:
    """An action as a person reads it: the text, the HTML if there is one, and the bytes that leave, decoded.

    The HTML is shown in a sandbox without scripts and without network; `size` is that of the source in bytes.
    """

    text: str
    html: str | None
    source: str
    size: int


class Kind(Protocol):
    """What a sort of action must be able to do. It is shown by `templates/approvals/previews/<kind>.html`."""

    def rendered(self, payload: Mapping[str, Any], blob: Callable[[str], bytes]) -> Rendered:
        """The content of a revision for the review page."""
        ...

    def execute(self, approved: ApprovedAction) -> Outcome:
        """Do it, once. Every exception counts as `unknown` after `wire_started`, as `not_sent` before."""
        ...

    def reconcile(self, approved: ApprovedAction) -> Outcome | None:
        """Look for evidence of a lost answer; None when there is none yet."""
        ...

    def settle(self, approved: ApprovedAction) -> None:
        """Idempotent work after success, such as the copy in Sent; raises to be called again."""
        ...
