"""Mail that mailhub itself sends leaves after the answer, so the time of an answer does not tell who is known here."""

import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import structlog
from django.conf import settings
from django.db import connections

log = structlog.get_logger(__name__)

AT_MOST = 100  # mails that wait; a flood must not fill the memory
_room = threading.BoundedSemaphore(AT_MOST)


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=settings.MAILHUB_OWN_MAIL_THREADS, thread_name_prefix="own-mail")


def send_later(send: Callable[[], None]) -> None:
    """Run `send` on a thread, once; a mail that is lost is logged without its address. With no threads, run it now."""
    if not settings.MAILHUB_OWN_MAIL_THREADS:
        _sent(send)
    elif _room.acquire(blocking=False):
        _pool().submit(_beside, contextvars.copy_context(), send)
    else:
        log.error("own_mail_dropped", count=AT_MOST)


def _beside(context: contextvars.Context, send: Callable[[], None]) -> None:
    try:
        context.run(_sent, send)
    finally:
        connections.close_all()
        _room.release()


def _sent(send: Callable[[], None]) -> None:
    try:
        send()
    except Exception:  # whatever it was, the page was answered already; the log holds no text of it
        log.exception("own_mail_failed")
