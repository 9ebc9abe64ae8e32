"""The server of the sandbox: both services in one event loop, on the same ports for each home."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mailhub.sandbox.imap import ImapService
from mailhub.sandbox.mailbox import MailboxSet
from mailhub.sandbox.seed import FOLDERS, seed
from mailhub.sandbox.smtp import SmtpService
from mailhub.sandbox.state import (
    Account,
    Sandbox,
    directory,
    first_state,
    load_state,
    save_state,
)
from mailhub.sandbox.store import Store

__all__ = ["Account", "Sandbox", "SandboxInUse", "load_state", "run", "serve"]

log = logging.getLogger(__name__)

SIZE_LIMIT = 35 * 1024 * 1024
# Longer than a sandbox takes to end, so that the next one can start on the same home.
LOCK_SECONDS = 3.0


class SandboxInUse(Exception):
    """Failure because another process runs the sandbox of this home."""


async def serve(
    home: Path, *, host: str = "127.0.0.1", ready: Callable[[Sandbox], None] = lambda sandbox: None
) -> None:
    """Run both services until cancelled; call `ready` when both accept and state.json exists."""
    _keep_mail_out_of_the_log()
    directory(home).mkdir(mode=0o700, parents=True, exist_ok=True)
    with (
        _lock_home(directory(home) / "lock"),
        closing(Store(directory(home) / "mail.sqlite3")) as store,
    ):
        saved = load_state(home) or first_state(host)
        _prepare(store, saved)
        mailboxes = {
            account.address: MailboxSet(account.address, store) for account in saved.accounts
        }
        imap = ImapService(saved.accounts, mailboxes, size_limit=SIZE_LIMIT)
        smtp = SmtpService(store, mailboxes, size_limit=SIZE_LIMIT)
        with (
            closing(_listen(host, saved.imap_port)) as imap_socket,
            closing(_listen(host, saved.smtp_port)) as smtp_socket,
        ):
            try:
                await imap.start(imap_socket)
                await smtp.start(smtp_socket)
                sandbox = replace(
                    saved,
                    host=host,
                    imap_port=imap_socket.getsockname()[1],
                    smtp_port=smtp_socket.getsockname()[1],
                    seeded=True,
                )
                save_state(home, sandbox)
                ready(sandbox)
                await asyncio.Event().wait()
            finally:
                await smtp.close()
                await imap.close()


def run(
    home: Path, *, host: str = "127.0.0.1", ready: Callable[[Sandbox], None] = lambda sandbox: None
) -> int:
    """Run the sandbox as a process until SIGTERM or SIGINT, and return the exit status."""
    try:
        asyncio.run(_run_until_signal(home, host=host, ready=ready))
    except SandboxInUse as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


async def _run_until_signal(home: Path, *, host: str, ready: Callable[[Sandbox], None]) -> None:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_log_without_content)
    task = asyncio.create_task(serve(home, host=host, ready=ready))
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        log.debug("the sandbox has ended")


def _prepare(store: Store, sandbox: Sandbox) -> None:
    folders = {}
    for account in sandbox.accounts:
        present = {folder.name: folder for folder in store.folders(account.address)}
        for name in FOLDERS:
            # A folder that a person deleted stays deleted, but INBOX always exists.
            if name not in present and (name == "INBOX" or not sandbox.seeded):
                present[name] = store.add_folder(account.address, name)
        folders.update({(account.address, name): folder.id for name, folder in present.items()})
    # The seed is one transaction, and the mark follows it. After a crash between them the mail
    # already exists.
    if not sandbox.seeded and store.is_empty():
        store.add(seed(folders, now=datetime.now(UTC)))


def _listen(host: str, port: int) -> socket.socket:
    """Return a socket on the port of the last run; on a new one if that is in use, or none was."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        if port == 0 or error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise
        return socket.create_server((host, 0), family=family)


@contextmanager
def _lock_home(path: Path) -> Iterator[None]:
    """Lock the home for this process, because two sandboxes would not see each other's mail."""
    with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "w") as lock:
        deadline = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise SandboxInUse("Another sandbox is running on this home.") from None
                time.sleep(0.05)
        yield


def _keep_mail_out_of_the_log() -> None:
    """Silence the libraries: below WARNING they log commands and addresses."""
    for name in ("mail.log", "pymap"):
        logger = logging.getLogger(name)
        logger.setLevel(max(logger.level, logging.WARNING))


def _log_without_content(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    error = context.get("exception")
    log.warning("the sandbox met %s", type(error).__name__ if error else "an event loop error")
