"""The parsing of foreign content: in a limited process, unless the content is too small to matter.

`run(function, *arguments)` calls a module-level function of `tools` and returns its result. It
raises Unparsable if the function took too long, needed too much memory, or could not read the
content.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from tools.mail.parsers.pool import Limits, Pool, Turns, Unparsable

__all__ = ["FILES", "MAIL", "Turns", "Unparsable", "is_small", "run"]

T = TypeVar("T")
# Below both limits, the worst of 574 hostile pages took 75 ms of processor time, so no other thread
# waits longer.
SMALL_CHARACTERS = 16_000
SMALL_MARKUP = 500

# The parsers of HTML, which other modules import at the first use. The limited processes load them
# before their limits apply.
_HTML = ("inscriptis", "tools.mail.html.legibility", "tools.mail.html.text")
# The limits for one mail: processor time, and memory of a process.
MAIL = Pool(
    Limits(seconds=1.5, memory=768 * 1024**2, processes=2),
    preload=(
        *_HTML,
        "tools.mail.message.markup",
        "tools.mail.message.draft_source",
        "tools.warnings",
    ),
)
# Documents may take longer. They have their own processes, so that no file delays a mail. A job can
# take longer than others wait, so one of them is for other people.
FILES = Pool(
    Limits(seconds=20.0, memory=1024**3, processes=2, of_person=1),
    preload=(*_HTML, "tools.mail.message.extract"),
)


def run(function: Callable[..., T], *arguments: Any, small: bool = False) -> T:
    """Return the result of a function for foreign content; `small` content is read in this process.

    Raises Unparsable.
    """
    if not small:
        return MAIL.run(function, *arguments)
    try:
        return function(*arguments)
    except Exception as error:  # a parser may raise anything on hostile content
        raise Unparsable("broken") from error


def is_small(*texts: str | None) -> bool:
    """Return True if these texts together are read in milliseconds, even hostile ones."""
    given = [text for text in texts if text]
    return (
        sum(map(len, given)) <= SMALL_CHARACTERS
        and sum(text.count("<") + text.count("&") for text in given) <= SMALL_MARKUP
    )
