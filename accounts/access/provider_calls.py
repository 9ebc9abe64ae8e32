"""How many calls of one process may wait for foreign servers, for one person and for one mailbox.

A mail server that says nothing keeps a thread for up to a minute. Without these limits one token on
one silent mailbox takes all threads of the web server. `mailhub.gunicorn_settings` lowers the
limit, because gunicorn has few threads. Each call gives its database connection back meanwhile
(`accounts.infra.database.give_back_connection`).
"""

import threading
from collections.abc import Hashable, Iterator
from contextlib import contextmanager

from accounts.infra.problems import Problem

AT_ONCE = 30
RETRY_SECONDS = 5
STRANGERS = "strangers"  # all calls together that somebody without a sign-in can begin
_lock = threading.Lock()
_running: list[Hashable] = []


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
    try:
        yield
    finally:
        with _lock:
            for each in counted:
                _running.remove(each)
