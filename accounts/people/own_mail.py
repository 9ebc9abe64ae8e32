"""Mail that mailhub itself sends: when it is sent, and how it is recognized in a mailbox.

It is sent after the answer, so the time of an answer does not reveal if an account exists. It
carries codes and links that sign people in. Each mail has a mark, so that programs which read the
recipient's mailbox do not get it.
"""

import contextvars
import re
import secrets
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import structlog
from django.conf import settings
from django.db import connections

from accounts.access.roles import connected_as
from accounts.infra.keys import sign_values, verify_values
from accounts.infra.own_header import OWN_HEADER
from accounts.infra.own_sender import own_sender

log = structlog.get_logger(__name__)

HEADER = OWN_HEADER
PURPOSE = "mailhub own mail"
# Nonce and digest. The mark does not cover the Message-ID, because some providers replace it. The
# space lets the line be folded; a longer word would be encoded.
MARK = re.compile(r"([0-9a-f]{32})\s+([0-9a-f]{8}:[0-9a-f]{64})")

AT_MOST = 100  # waiting mails; a flood must not fill the memory
_room = threading.BoundedSemaphore(AT_MOST)


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(
        max_workers=settings.MAILHUB_OWN_MAIL_THREADS, thread_name_prefix="own-mail"
    )


def send_later(send: Callable[[], None]) -> None:
    """Run `send` once on a thread, without a retry; a failure is logged without the address.

    Without threads, run it now.
    """
    if not settings.MAILHUB_OWN_MAIL_THREADS:
        _send_safely(send)
    elif _room.acquire(blocking=False):
        _pool().submit(_send_in_thread, contextvars.copy_context(), send)
    else:
        log.error("own_mail_dropped", count=AT_MOST)


def _send_in_thread(context: contextvars.Context, send: Callable[[], None]) -> None:
    try:
        context.run(_send_safely, send)
    finally:
        connections.close_all()
        _room.release()


def _send_safely(send: Callable[[], None]) -> None:
    try:
        send()
    except Exception:  # the page was answered already; the log holds no text of the error
        log.exception("own_mail_failed")


def new_mark() -> str:
    """Return a value for HEADER that only this installation can make."""
    nonce = secrets.token_hex(16)
    return f"{nonce} {sign_values(nonce, purpose=PURPOSE)}"


def is_mark(value: str) -> bool:
    """Return True if a configured key made this value."""
    found = MARK.fullmatch(value.strip())
    return found is not None and verify_values(found[2], found[1], purpose=PURPOSE)


def possible_senders() -> frozenset[str]:
    """Return `own_sender()` and the account at the mail server: some servers write it into From."""
    account = settings.EMAIL_HOST_USER.lower()
    return frozenset({own_sender(), account} if "@" in account else {own_sender()})


def sender_is_mailbox() -> bool:
    """Return True if own mail comes from the address of a mailbox that is connected here."""
    return connected_as(own_sender()).exists()
