"""All that passes between approvals and a kind of action. Approvals knows no mail."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Protocol, runtime_checkable
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
    """Something a person should know before deciding; `text` is a sentence without mail content
    beyond addresses.

    `mark` tells what was found, where the same code may be said again about something else: what a
    person has been told once is no news at the next look.
    """

    code: str
    text: str
    title: str = ""
    severity: Severity = "notice"
    mark: str = ""


@dataclass(frozen=True, kw_only=True)
class Preview:
    """What every kind shows, and what the queue, the policy and the comparison of revisions work
    on.

    `fingerprint` is equal for actions a person would call the same. `parts` is the kind's own, for
    its template.
    """

    title: str
    targets: tuple[Target, ...]
    excerpt: str
    fingerprint: str
    parts: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[PreviewWarning, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """What a kind hands to `approvals.lifecycle.proposals.propose`.

    `payload` is JSON and complete: nothing is derived anew after approval. `blobs` are bytes it
    names by SHA-256. `message_id` is the marker by which the effect can be found again. With
    `send_at` it leaves no earlier than then.
    """

    kind: str
    payload: Mapping[str, Any]
    preview: Preview
    message_id: str
    blobs: tuple[bytes, ...] = ()
    send_at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class ApprovedAction:
    """What a kind gets to carry out: the frozen payload, and the call that marks the point of no
    return.

    `wire_started()` commits that the effect may happen from now on; it raises LeaseLost when
    another worker has taken over, and nothing may be sent then. `blob(sha256)` returns the bytes
    that the payload names. `prepared` is what an earlier try, or an earlier step of this one, has
    left on the other side to be used again, such as the id of a draft there; `keep(notes)` commits
    it before it is needed, and raises LeaseLost like wire_started. `receipt` is there once it has
    happened.
    """

    id: UUID
    kind: str
    mailbox_id: UUID
    payload: Mapping[str, Any]
    digest: str
    message_id: str
    wire_started: Callable[[], None]
    blob: Callable[[str], bytes]
    keep: Callable[[Mapping[str, Any]], None]
    prepared: Mapping[str, Any] = field(default_factory=dict)
    receipt: Mapping[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class HeldFile:
    """A file that an action carries."""

    name: str
    type: str
    size: int
    sha256: str


@dataclass(frozen=True, kw_only=True)
class GivenFile:
    """A file that a reviewer adds."""

    name: str
    type: str
    content: bytes


@dataclass(frozen=True, kw_only=True)
class FilesGiven:
    """Which of the present files stay, by SHA-256, and which are added."""

    kept: tuple[str, ...] = ()
    added: tuple[GivenFile, ...] = ()


FieldSort = Literal["addresses", "line", "text", "choice", "files"]


@dataclass(frozen=True, kw_only=True)
class EditField:
    """One thing that a reviewer may change: its name, how it is typed in, and what it says now.

    `value` is as it is typed in (addresses one a line); `reading` is how a person reads it where
    the two differ, such as HTML and its text. `choices` are the values and labels of a choice,
    `files` what sort "files" holds now.
    """

    name: str
    label: str
    sort: FieldSort
    value: str = ""
    reading: str = ""
    choices: tuple[tuple[str, str], ...] = ()
    files: tuple[HeldFile, ...] = ()


# What a reviewer typed in, by the names of the fields; what is left out stays as it is.
Changes = Mapping[str, str | FilesGiven]


@dataclass(frozen=True, kw_only=True)
class Revisable:
    """The revision that is edited.

    `preview` is that of now, as JSON; `blob(sha256)` returns what the payload names.
    """

    payload: Mapping[str, Any]
    preview: Mapping[str, Any]
    blob: Callable[[str], bytes]


class LeaseLost(Exception):
    """Another worker holds the action now."""


Verdict = Literal["accepted", "refused", "not_sent", "unknown"]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What is known about the effect.

    accepted: it happened. refused: a definite no. not_sent: it certainly did not happen and may be
    tried again, after `retry_after` seconds if the other side said so. unknown: it may or may not
    have happened. `reference`: under which id the other side has it, when that may differ from
    ours. `pauses_mailbox`: the other side refuses everything of this mailbox for now (429, 421),
    not only this action.
    """

    verdict: Verdict
    code: str = ""
    detail: str = ""
    retry_after: int | None = None
    pauses_mailbox: bool = False
    required_scope: str | None = None
    receipt: Mapping[str, Any] = field(default_factory=dict)
    reference: str = ""


@dataclass(frozen=True, kw_only=True)
class Passage:
    """A stretch of the plain text. `only_here`: the HTML does not hold its words."""

    text: str
    only_here: bool = False


@dataclass(frozen=True, kw_only=True)
class Rendered:
    """An action as a person reads it: the text, the HTML if there is one, and the bytes that leave,
    decoded.

    The HTML is shown in a sandbox without scripts and without network; `size` is that of the source
    in bytes. `passages` is the text again if it says something else than the HTML: then both are
    shown together. `unseen` are texts of the HTML that its reader would not see.
    """

    text: str
    html: str | None
    source: str
    size: int
    passages: tuple[Passage, ...] = ()
    unseen: tuple[str, ...] = ()


class Kind(Protocol):
    """What a sort of action must be able to do.

    It is shown by `templates/approvals/previews/<kind>.html`.
    """

    def rendered(self, payload: Mapping[str, Any], blob: Callable[[str], bytes]) -> Rendered:
        """The content of a revision for the review page."""
        ...

    def execute(self, approved: ApprovedAction) -> Outcome:
        """Do it, once.

        Every exception counts as `unknown` after `wire_started`, as `not_sent` before.
        """
        ...

    def reconcile(self, approved: ApprovedAction) -> Outcome | None:
        """Look for evidence of a lost answer; None when there is none yet."""
        ...

    def settle(self, approved: ApprovedAction) -> None:
        """Idempotent work after success, such as the copy in Sent; raises to be called again."""
        ...


@runtime_checkable
class Rechecks(Protocol):
    """A kind that looks once more before the claim: has the thread moved on, is the draft
    unchanged?
    """

    def recheck(self, approved: ApprovedAction) -> tuple[PreviewWarning, ...]:
        """What a person should know before this leaves; anything sends the action back to them.

        It may call the provider, outside any transaction; an exception says nothing, and the action
        waits.
        """
        ...


@runtime_checkable
class Revises(Protocol):
    """A kind whose actions a reviewer may edit."""

    def fields(self, payload: Mapping[str, Any]) -> tuple[EditField, ...]:
        """What may be changed, in the order of the form, with its present values. Pure."""
        ...

    def revise(self, current: Revisable, changes: Changes) -> Proposal:
        """The action with these changes, composed and checked like a proposal, under the same
        `message_id`.

        It may call the provider, outside any transaction. Raises Problem, with the names of the
        fields, for what cannot be; a name that is no field is such.
        """
        ...


@runtime_checkable
class Speaks(Protocol):
    """A kind that is no mail, for which the pages have other words.

    `words` may name each state and each verdict of a try, `question`, `approve`, `sealed` and
    `returned` of the review page, and `sort`, the word for one of them. `may_have_happened`,
    `did_happen`, `did_happen_twice` and `twice` are sentences about an attempt whose answer was
    lost. What happened is told by `templates/approvals/states/<kind>.html` then.
    """

    words: Mapping[str, Any]


@runtime_checkable
class Prepares(Protocol):
    """A kind that leaves something on the other side before the effect, to be taken away when it
    will not happen.
    """

    def discard(self, approved: ApprovedAction) -> None:
        """Take away what `approved.prepared` names, and nothing else; idempotent; raises to be
        called again.
        """
        ...

    def destroy(self, approved: ApprovedAction) -> bool:
        """Destroy for good what `approved.prepared` names, so that no order that names it can be
        carried out any more.

        True only when the other side has confirmed that this call did it. What a person has changed
        is left alone: False. Raises to be called again.
        """
        ...
