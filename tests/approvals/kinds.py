"""A kind in which a test can replace every step; the rest is mail.send on the in-memory server."""

from collections.abc import Callable
from dataclasses import dataclass, field

from approvals.core.types import BEFORE_WIRE, ApprovedAction, Outcome, PreviewWarning
from tools.sending.kinds import SendMail


@dataclass
class Script(SendMail):
    """A kind with hooks: `before` runs first, `instead` replaces the send, `later` runs after the
    provider has answered, `after` replaces the work after the send.
    """

    before: Callable[[ApprovedAction], None] = lambda approved: None
    instead: Callable[[ApprovedAction], Outcome] | None = None
    later: Callable[[ApprovedAction], None] = lambda approved: None
    look: Callable[[ApprovedAction], Outcome | None] = lambda approved: None
    seen: Callable[[ApprovedAction], tuple[PreviewWarning, ...]] = lambda approved: ()
    after: Callable[[ApprovedAction], None] | None = None
    called: list[str] = field(default_factory=list)

    def execute(self, approved: ApprovedAction) -> Outcome:
        self.called.append("execute")
        self.before(approved)
        outcome = self.instead(approved) if self.instead else super().execute(approved)
        self.later(approved)
        return outcome

    def settle(self, approved: ApprovedAction) -> None:
        if self.after is None:
            super().settle(approved)
        else:
            self.after(approved)

    def recheck(self, approved: ApprovedAction) -> tuple[PreviewWarning, ...]:
        return self.seen(approved)

    def reconcile(self, approved: ApprovedAction) -> Outcome | None:
        self.called.append("reconcile")
        return self.look(approved)


_now: list[Script] = []


def current() -> Script:
    """Return the current script. settings.MAILHUB_KINDS names this function while the fixture
    `script` is in use.
    """
    return _now[-1]


def begin() -> Script:
    _now.append(Script())
    return _now[-1]


def end() -> None:
    _now.pop()


NOT_NOW = Outcome(verdict="not_sent", proof=BEFORE_WIRE, code="unavailable")
LOST = Outcome(verdict="unknown", code="timeout")


def handed_over(approved: ApprovedAction) -> Outcome:
    """Start the wire, and return a lost answer."""
    approved.wire_started()
    return LOST
