"""Kept SMTP sessions: after an accepted mail, the connection waits for the mailbox's next mail.

Connecting, TLS and signing in take most of a send. A session is kept only after a 2xx answer to the
final dot. Before the next mail it is checked with RSET. A failure there comes before MAIL, so
nothing has been sent, and the sender opens a new connection.
"""

import contextlib
import os
import smtplib
import threading
from dataclasses import dataclass

from accounts.connect.imap import COMMAND_SECONDS, PinnedSmtp
from tools.providers.imap.smtp import leave

IDLE_SECONDS = 30.0
ALIVE_SECONDS = 10.0
MAX_KEPT = 50  # connections that wait, in one process
MAX_MAILS = 20  # a connection; servers have limits, such as Exchange's SmtpMaxMessagesPerConnection


@dataclass(eq=False)
class Idle:
    """A connection that waits, and the timer that ends it."""

    smtp: PinnedSmtp
    timer: threading.Timer


class SmtpSessions:
    """The kept SMTP sessions of this process, by key: mailbox and version of its credentials.

    There is at most one for a key, because at most one mail of a mailbox leaves at a time.
    """

    def __init__(self, idle_seconds: float = IDLE_SECONDS) -> None:
        self._idle_seconds = idle_seconds
        self._lock = threading.Lock()
        self._idle: dict[object, Idle] = {}
        self._pid = os.getpid()

    def take(self, key: object, seconds: float) -> PinnedSmtp | None:
        """Return a session that is ready for MAIL, if one is kept; its dialogue ends after
        `seconds`.
        """
        idle = self._remove(key)
        if idle is None:
            return None
        smtp = idle.smtp
        try:
            smtp.wait_for(ALIVE_SECONDS)
            if smtp.extend(seconds) and smtp.rset()[0] == 250:
                smtp.wait_for(COMMAND_SECONDS)
                return smtp
        except (smtplib.SMTPException, OSError):
            pass  # it ended while it waited
        smtp.close()
        return None

    def keep(self, key: object, smtp: PinnedSmtp) -> None:
        """Keep a session whose last mail was accepted, or end it if there is no room.

        It never raises, because the mail has left.
        """
        smtp.mails += 1
        timer = threading.Timer(self._idle_seconds, self._end, [key, smtp])
        timer.daemon = True
        with self._lock:
            self._forget_what_was_forked()
            full = len(self._idle) >= MAX_KEPT or key in self._idle
            if not full and smtp.mails < MAX_MAILS:
                with contextlib.suppress(RuntimeError):  # there can be no further thread
                    timer.start()
                    self._idle[key] = Idle(smtp, timer)
                    return
        leave(smtp)

    def close_all(self) -> None:
        """End all sessions that wait."""
        for key in list(self._idle):
            if idle := self._remove(key):
                leave(idle.smtp)

    def _end(self, key: object, smtp: PinnedSmtp) -> None:
        if self._remove(key, smtp):
            leave(smtp)

    def _remove(self, key: object, only: PinnedSmtp | None = None) -> Idle | None:
        """Return the session of a key and forget it; with `only`, no other than this one."""
        with self._lock:
            self._forget_what_was_forked()
            idle = self._idle.get(key)
            if idle is None or only not in (None, idle.smtp):
                return None
            del self._idle[key]
        idle.timer.cancel()
        return idle

    def _forget_what_was_forked(self) -> None:
        """Forget the sessions of a parent process; the parent keeps using them.

        Two processes on one connection would mix the commands of two mails.
        """
        if self._pid != os.getpid():
            self._idle, self._pid = {}, os.getpid()


SESSIONS = SmtpSessions()
