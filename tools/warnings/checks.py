"""The declaration of a warning: beside its function, all that pages, documents and tests need."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from accounts.infra.texts import ntranslatable
from approvals.core.types import PreviewWarning, Severity
from tools.mail.message.compose import OutgoingMessage
from tools.warnings.context import Context

NAMED = 3  # things of a longer list in a sentence


@dataclass(frozen=True, kw_only=True)
class Found:
    """A finding that is more than a text. A member given here counts instead of the declared one."""

    text: str
    title: str = ""
    severity: Severity | None = None
    mark: str = ""


Find = Callable[[OutgoingMessage, Context], Found | str | None]


@dataclass(frozen=True)
class Check:
    """A check for one warning. It returns the warning, or None.

    `title` and `short` are its headings on the review page and in the queue. `rises`: a notice that is
    a high risk in some cases. `of_text`: the words of an honest mail can raise it, so
    tests/tools/warnings/test_precision.py measures how often.
    """

    find: Find
    title: str
    short: str
    severity: Severity = "notice"
    rises: bool = False
    of_text: bool = False

    @property
    def code(self) -> str:
        return self.find.__name__

    @property
    def when(self) -> str:
        """Return when it is raised, for docs/contract.md: the docstring without "Warn if"."""
        return " ".join(str(self.find.__doc__).split()).removeprefix("Warn if ").rstrip(".")

    def __call__(self, message: OutgoingMessage, context: Context) -> PreviewWarning | None:
        found = self.find(message, context)
        return self.warn(found) if found else None

    def warn(self, found: Found | str) -> PreviewWarning:
        """Return the warning about this finding."""
        more = found if isinstance(found, Found) else Found(text=found)
        return PreviewWarning(
            code=self.code,
            title=more.title or self.title,
            text=more.text,
            severity=more.severity or self.severity,
            mark=more.mark,
        )


def check(title: str, short: str, **more: Any) -> Callable[[Find], Check]:
    """Return a decorator that makes a `Check` of a function, with these members."""
    return lambda find: Check(find, title, short, **more)


def and_more(count: int) -> str:
    """Return the sentence for the things of a list without a name here; "" if each has one."""
    return ntranslatable("And %(count)s more.", "And %(count)s more.", count) if count > 0 else ""
