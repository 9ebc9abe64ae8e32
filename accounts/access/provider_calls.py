"""How many calls of one process may wait for foreign servers or parsers, for one person and for one
mailbox.

A mail server that says nothing keeps a thread for up to a minute. Without these limits one token on
one silent mailbox takes as many as it likes. Each call gives its database connection back meanwhile
(`accounts.infra.database.give_back_connection`).
"""

import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from accounts.access.room import LARGE, MEGABYTE, Room
from accounts.infra.problems import Problem

AT_ONCE = 30
FOR_OTHERS = 3  # a person leaves one of so many places of a mailbox to others
RETRY_SECONDS = 5
STRANGERS = "strangers"  # all calls together of sign-ins that begin
_lock = threading.Lock()
_running: list[Hashable] = []
# A largest answer has 64 MB, and a call needs some times as much to read it.
ANSWERS = Room(most=192 * MEGABYTE, of_person=96 * MEGABYTE)


@dataclass(kw_only=True)
class _Call:
    """A counted call, and the bytes of content that it holds."""

    person: Hashable
    note: Callable[[int], None]
    size: int = 0


_call: ContextVar[_Call | None] = ContextVar("counted_call", default=None)


@contextmanager
def limit_waiting(person: Hashable, mailbox: Hashable = None) -> Iterator[None]:
    """Count a call while it runs; raise `transient` if the person or the mailbox has too many."""
    counted: dict[Hashable, int] = {("person", person): AT_ONCE}
    if mailbox is not None:
        counted |= {
            ("mailbox", mailbox): AT_ONCE,
            (person, mailbox): AT_ONCE - AT_ONCE // FOR_OTHERS,
        }
    with _lock:
        if any(_running.count(each) >= most for each, most in counted.items()):
            raise Problem(
                "transient",
                "Too many calls wait for the mail server at the same time.",
                retry_after=RETRY_SECONDS,
            )
        _running.extend(counted)
    try:
        with ANSWERS.hold(person) as note:
            outer = _call.set(_Call(person=person, note=note))
            try:
                yield
            finally:
                _call.reset(outer)
    finally:
        with _lock:
            for each in counted:
                _running.remove(each)


def person_of_call() -> Hashable:
    """Return the person whose call is counted here; None outside of such a call, as in a worker."""
    call = _call.get()
    return call.person if call else None


def hold_content(size: int) -> None:
    """Count content that the call here holds until it ends; raise `transient` if there is no room.

    Small content is not counted. The answer to a change must not be: it would be lost.
    """
    if size > LARGE and (call := _call.get()):
        call.size += size
        call.note(call.size)
