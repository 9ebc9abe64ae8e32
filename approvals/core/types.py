"""Types that pass between approvals and a kind of action. Approvals knows no mail."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, cast, runtime_checkable
from uuid import UUID

from django.conf import settings
from django.utils.module_loading import import_string

from accounts.infra.texts import dump_texts

if TYPE_CHECKING:
    # Processes that read hostile content import this module without Django's models.
    from accounts.models import Mailbox

Severity = Literal["fact", "notice", "risk"]

CLOCKS_DIFFER = timedelta(minutes=1)  # ours and that of a mail server


@dataclass(frozen=True, kw_only=True)
class Target:
    """A recipient that the action reaches. `name` is only a claim of the proposal."""

    address: str
    role: str
    name: str = ""
    external: bool = False


@dataclass(frozen=True, kw_only=True)
class PreviewWarning:
    """A fact that a person should know before they decide.

    `text` is a sentence without mail content beyond addresses. `mark` has a word for each finding if
    the same code can occur again for another one. A warning with a known code and known words is not
    shown as news again. The severity `fact` is for what is usual: it is shown, but it warns of nothing.
    """

    code: str
    text: str
    title: str = ""
    severity: Severity = "notice"
    mark: str = ""

    def as_json(self) -> dict[str, Any]:
        texts = dump_texts(text=self.text, title=self.title)
        return {"code": self.code, "severity": self.severity, "mark": self.mark, **texts}


@dataclass(frozen=True, kw_only=True)
class AnsweredFirst(PreviewWarning):
    """A warning that withdraws an approved action: the approved content says that an answer does.

    `by` is the address that wrote it, `at` the time of its arrival if that is known.
    """

    by: str = ""
    at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class Preview:
    """The summary that every kind shows; queue, policy and comparison of revisions use it.

    `fingerprint` is equal for actions that a person would call the same. `parts` belongs to the
    kind, for its template.
    """

    title: str
    targets: tuple[Target, ...]
    excerpt: str
    fingerprint: str
    parts: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[PreviewWarning, ...] = ()

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "warnings": [warning.as_json() for warning in self.warnings]}


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """A proposal that a kind hands to `approvals.gate.propose.propose`.

    `payload` is JSON and complete: nothing is worked out again after the approval. `blobs` are
    bytes that it names by SHA-256. `message_id` is the marker by which the effect can be found
    again. `send_at` is the earliest time at which the action may leave; a revision may change it.
    `asked_fingerprint` is one more fingerprint, of what the proposer wrote: a revision has only that of
    the content.
    """

    kind: str
    payload: Mapping[str, Any]
    preview: Preview
    message_id: str
    blobs: tuple[bytes, ...] = ()
    send_at: datetime | None = None
    asked_fingerprint: str = ""

    @property
    def fingerprints(self) -> tuple[str, ...]:
        """Return all its fingerprints: an action with one of them is the same to a person."""
        return tuple(filter(None, (self.preview.fingerprint, self.asked_fingerprint)))


@dataclass(frozen=True, kw_only=True)
class Remarks:
    """The words of the proposer about a proposal: a claim, of which nothing leaves.

    `metadata` is for the proposer's own use. `callback_url` gets the events of the action.
    """

    reason: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    callback_url: str = ""


@dataclass(frozen=True, kw_only=True)
class ApprovedAction:
    """The frozen payload that a kind executes, and the call that marks the point of no return.

    `wire_started(order)` commits that the effect may happen from now on. It raises LeaseLost if
    another worker has taken over; then nothing may be sent. `order` holds the notes on the objects
    that the order to the provider names: only their destruction proves later that it did nothing.
    It is left out if the order names none. `blob(sha256)` returns the bytes that the payload names.
    `prepared` names objects at the provider for reuse, such as the id of a draft. An earlier attempt,
    or an earlier step of this one, left them there. `keep(notes)` commits such notes before they are
    needed, and raises LeaseLost like wire_started. `receipt` is set once the
    effect has happened. `is_leaving` once nobody has to decide any more.
    """

    id: UUID
    kind: str
    mailbox: "Mailbox"
    payload: Mapping[str, Any]
    digest: str
    message_id: str
    proposed_at: datetime
    wire_started: Callable[..., None]
    blob: Callable[[str], bytes]
    keep: Callable[[Mapping[str, Any]], None]
    prepared: Mapping[str, Any] = field(default_factory=dict)
    receipt: Mapping[str, Any] | None = None
    is_leaving: bool = False


@dataclass(frozen=True, kw_only=True)
class HeldFile:
    """A file that an action carries."""

    name: str
    type: str
    size: int
    sha256: str

    @property
    def key(self) -> str:
        """Return the name of this file in a form: two files may have the same bytes."""
        return f"{self.sha256}:{self.name}"


@dataclass(frozen=True, kw_only=True)
class GivenFile:
    """A file that a reviewer adds."""

    name: str
    type: str
    content: bytes


@dataclass(frozen=True, kw_only=True)
class FilesGiven:
    """The present files that stay, by their keys, and the files that are added."""

    kept: tuple[str, ...] = ()
    added: tuple[GivenFile, ...] = ()


FieldSort = Literal["addresses", "line", "text", "html", "choice", "files", "moment"]


@dataclass(frozen=True, kw_only=True)
class EditField:
    """A field that a reviewer may change: its name, its input and its present value.

    `value` is the text in the input: one address in each line, a moment by RFC 3339. `reading` is
    the text that a person reads, if it differs, such as the text of HTML. `choices` are the values
    and labels of a choice. `files` are the present files of a field of sort "files". `folded`: the
    input is behind a word while it is empty.
    """

    name: str
    label: str
    sort: FieldSort
    value: str = ""
    reading: str = ""
    choices: tuple[tuple[str, str], ...] = ()
    files: tuple[HeldFile, ...] = ()
    folded: bool = False


# The reviewer's input by the names of the fields; a field that is missing stays as it is.
Changes = Mapping[str, str | FilesGiven]


@dataclass(frozen=True, kw_only=True)
class Revisable:
    """The revision that is edited.

    `preview` is the present one, as JSON; `blob(sha256)` returns the bytes that the payload names.
    """

    id: UUID
    payload: Mapping[str, Any]
    preview: Mapping[str, Any]
    blob: Callable[[str], bytes]


class LeaseLost(Exception):
    """Raised if another worker holds the action now."""


Verdict = Literal["accepted", "refused", "not_sent", "unknown"]


@dataclass(frozen=True, kw_only=True)
class Proof:
    """The proof that an attempt had no effect; `object` is the object that its order names.

    before_wire: nothing was handed over. answer: a refusal of an order that names no object.
    unsent: after the refusal the object was still there, unsent. destroyed: the object was destroyed,
    so no order that names it can be carried out.
    """

    kind: Literal["before_wire", "answer", "unsent", "destroyed"]
    object: str = ""


BEFORE_WIRE = Proof(kind="before_wire")


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The known facts about the effect of an attempt.

    accepted: it happened. refused: it did not happen, and a retry changes nothing. not_sent: it did
    not happen and may be retried, after `retry_after` seconds if the provider asked for that. Both
    need a `proof`. unknown: it may or may not have happened. `reference`: the provider's id of it,
    if it may differ from ours. `pauses_mailbox`: the provider refuses everything of this mailbox for
    now (429, 421), not only this action.
    """

    verdict: Verdict
    proof: Proof | None = None
    code: str = ""
    detail: str = ""
    retry_after: int | None = None
    pauses_mailbox: bool = False
    required_scope: str | None = None
    receipt: Mapping[str, Any] = field(default_factory=dict)
    reference: str = ""

    def __post_init__(self) -> None:
        if (self.proof is not None) is not (self.verdict in ("refused", "not_sent")):
            raise ValueError(f"{self.verdict} with proof {self.proof}")

    @classmethod
    def broken_off(cls, *, on_wire: bool, code: str, detail: str = "") -> Self:
        """Return the outcome of an attempt that ended without an answer."""
        if on_wire:
            return cls(verdict="unknown", code=code, detail=detail)
        return cls(verdict="not_sent", proof=BEFORE_WIRE, code=code, detail=detail)


@dataclass(frozen=True, kw_only=True)
class Passage:
    """A stretch of the plain text. `only_here`: the HTML does not hold its words."""

    text: str
    only_here: bool = False


@dataclass(frozen=True, kw_only=True)
class Rendered:
    """An action as a person reads it: text, HTML if there is one, and the decoded bytes that leave.

    The HTML is shown in a sandbox without scripts and without network; `size` is the size of the
    source in bytes. `passages` is the text again if it differs from the HTML: then both are shown
    together. `unseen` are texts of the HTML that its reader would not see.
    """

    text: str
    html: str | None
    source: str
    size: int
    passages: tuple[Passage, ...] = ()
    unseen: tuple[str, ...] = ()


class NotLookedAt(Exception):
    """Raised if not everything could be searched for what was not found."""


class NotYet(Exception):
    """Nothing failed, but a part of the work after a send can only be done later."""

    def __init__(self, wait: timedelta) -> None:
        super().__init__(wait)
        self.wait = wait


@dataclass(frozen=True, kw_only=True)
class FollowUp:
    """The wish of a proposer to learn that nobody has answered after some days, with a note."""

    after_days: int
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A recipient who did not get a mail, as a report says; `address` is empty if it names none."""

    address: str
    status: str = ""
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Response:
    """A message that came after an action. `names` are the Message-IDs that it is about.

    answer: somebody wrote. automatic: a program answered. returned: it reports `failures`.
    """

    sort: Literal["answer", "automatic", "returned"]
    names: tuple[str, ...]
    by: str
    at: datetime | None
    failures: tuple[Failure, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Arrivals:
    """The responses that arrived, oldest first; `seen_until` if a limit was reached at that time."""

    responses: tuple[Response, ...]
    seen_until: datetime | None = None


class ActionKind(ABC):
    """A kind of action.

    On the review page its `template` shows the payload above the text of `render`. `aside_template`
    is beside the message, such as its conversation, and `later_template` after the text. A kind may
    have none of them.

    A kind that is not mail has `words`, which the pages use instead of their own. They may name each
    state and each verdict of an attempt, `question`, `approve`, `sealed` and `returned` of the review
    page, and `sort`, the word for one of them. `may_have_happened`, `did_happen`, `did_happen_twice`
    and `twice` are sentences about an attempt whose answer was lost. `look_first` is the sentence for
    a person who may approve it again. The other words are the sentences of
    `templates/approvals/state.html`.

    A reviewer may edit its actions if it `is_editable`; it then has `fields` and `revise`.
    """

    words: Mapping[str, Any] = MappingProxyType({})
    template = aside_template = later_template = ""
    is_editable = False

    @abstractmethod
    def render(self, payload: Mapping[str, Any], blob: Callable[[str], bytes]) -> Rendered:
        """Return the content of a revision for the review page."""

    @abstractmethod
    def execute(self, approved: ApprovedAction) -> Outcome:
        """Execute the action, once.

        An exception counts as `unknown` after `wire_started`, and as `not_sent` before.
        """

    @abstractmethod
    def reconcile(self, approved: ApprovedAction) -> Outcome | None:
        """Look for evidence of a lost answer; return None if there is no evidence yet."""

    @abstractmethod
    def can_look(self, approved: ApprovedAction) -> bool:
        """Return False if `reconcile` cannot find evidence in this mailbox; asks no server."""

    @abstractmethod
    def settle(self, approved: ApprovedAction) -> None:
        """Do idempotent work after success, such as the copy in Sent; raises to be called again,
        and NotYet to be called again at a time of its own.
        """

    def compare_effect(self, approved: ApprovedAction) -> tuple[str, ...] | None:
        """Return how the effect differs from what was approved; None if it cannot be seen yet.

        It may call the provider, outside any transaction; raises to be called again.
        """
        return ()

    def recheck(self, approved: ApprovedAction) -> tuple[PreviewWarning, ...]:
        """Return warnings for a person, for example that the thread has moved on. Any warning sends
        the action back to them, except AnsweredFirst, which withdraws an approved action.

        It may call the provider, outside any transaction. After an exception nothing is known, and
        the action waits.
        """
        return ()

    def fields(self, payload: Mapping[str, Any]) -> tuple[EditField, ...]:
        """Return the editable fields in the order of the form, with their present values. Pure."""
        return ()

    def revise(self, current: Revisable, changes: Changes) -> Proposal:
        """Return the action with these changes, composed and checked like a proposal.

        It keeps its `message_id`. It may call the provider, outside any transaction. Raises
        Problem, with the names of the fields, for changes that are not possible and for names that
        are not fields.
        """
        raise NotImplementedError

    def result(self, action_id: UUID) -> Mapping[str, str] | None:
        """Return the short answer that the proposer needs, such as the id of an object, as long as
        content is kept; None without one.
        """
        return None

    def explain(self, tool: str, preview: Mapping[str, Any], proposer: str) -> str:
        """Return in one line of HTML why an action is here, from facts of the proposal; "" for the
        usual line.

        `proposer` is HTML. `preview` is not empty.
        """
        return ""

    def discard(self, approved: ApprovedAction) -> bool:
        """Remove only the objects at the provider that `approved.prepared` names.

        Return False if such an object is gone: then somebody else may have carried the effect out.
        Raises to be called again.
        """
        return True

    def destroy(self, approved: ApprovedAction) -> bool:
        """Destroy the objects that `approved.prepared` names, for good.

        No order that names them can be carried out any more. Return True only if the provider has
        confirmed that this call did it. An object that a person has changed is left in place:
        return False. Raises to be called again.
        """
        return False


@runtime_checkable
class Followed(Protocol):
    """A kind to whose effect people may answer.

    All but the first method call the provider, outside any transaction; they raise to be called
    again.
    """

    def follow_up(self, payload: Mapping[str, Any]) -> FollowUp | None:
        """Return the follow-up that the approved content asks for. Pure."""
        ...

    def shown_id(self, mailbox: "Mailbox", message_id: str) -> str:
        """Return the Message-ID under which Sent shows the action with ours; "" if it is not there."""
        ...

    def find_arrivals(self, mailbox: "Mailbox", since: datetime) -> Arrivals:
        """Return what has arrived since then; not every response in another folder is found."""
        ...

    def find_answer(self, mailbox: "Mailbox", message_id: str) -> Response | None:
        """Return an answer to the action that is shown with this id, wherever it is.

        Raises NotLookedAt if none is found and not everything could be searched.
        """
        ...


@cache
def get_kind(name: str) -> ActionKind:
    """Return the kind that settings.MAILHUB_KINDS names.

    A system check proves at start that each path resolves.
    """
    return cast(ActionKind, import_string(settings.MAILHUB_KINDS[name])())
