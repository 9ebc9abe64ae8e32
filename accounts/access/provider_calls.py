"""How many calls of one process may wait for foreign servers or parsers, for one person and for one
mailbox.

A mail server that says nothing keeps a thread for up to a minute. Without these limits one token on
one silent mailbox takes all threads of the web server. `mailhub.gunicorn_settings` lowers the
limit, because gunicorn has few threads. Each call gives its database connection back meanwhile
(`accounts.infra.database.give_back_connection`).
"""

import threading
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from accounts.infra.problems import Problem

AT_ONCE = 30
RETRY_SECONDS = 5
STRANGERS = "strangers"  # all calls together that somebody without a sign-in can begin
_lock = threading.Lock()
_running: list[Hashable] = []
_person: ContextVar[Hashable] = ContextVar("person_of_the_call", default=None)


@contextmanager
def limit_waiting(person: Hashable, mailbox: Hashable = None) -> Iterator[None]:
    """Count a call while it runs; raise `transient` if the person or the mailbox has too many."""
    counted: list[Hashable] = [("person", person)]
    if mailbox is not None:
        counted.append(("mailbox", mailbox))
    with _lock:
        if any(_running.count(each) >= AT_ONCE for each in counted):
            raise Problem(
                "transient",
                "Too many calls wait for the mail server at the same time.",
                retry_after=RETRY_SECONDS,
            )
        _running.extend(counted)
    outer = _person.set(person)
    try:
        yield
    finally:
        _person.reset(outer)
        with _lock:
            for each in counted:
                _running.remove(each)


def person_of_call() -> Hashable:
    """Return the person whose call is counted here; None outside of such a call, as in a worker."""
    return _person.get()
