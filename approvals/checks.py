"""System checks that must pass before any process starts."""

from collections.abc import Iterator, Sequence
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils.module_loading import import_string

from accounts.models import Mailbox
from accounts.people import own_mail

SQLITE_FULL = 2  # PRAGMA synchronous: 0 OFF, 1 NORMAL, 2 FULL, 3 EXTRA
DURABLE = ("fsync", "full_page_writes", "synchronous_commit")
GATE = "gate"  # the tag of checks for workers: they serve no address, so they skip the others


@register(GATE)
def check_kinds(**_: Any) -> list[CheckMessage]:
    """Return an error for each kind or queue that cannot be imported.

    Without this check the first approval of such a kind would find it out.
    """
    errors: list[CheckMessage] = []
    named = [("MAILHUB_KINDS", name, path) for name, path in settings.MAILHUB_KINDS.items()]
    # Only the chosen queue is imported: the others need not be installed, and importing costs time.
    chosen = settings.MAILHUB_QUEUES.get(settings.MAILHUB_QUEUE)
    if chosen is None:
        known = ", ".join(sorted(settings.MAILHUB_QUEUES))
        errors.append(
            Error(
                f"MAILHUB_QUEUE is {settings.MAILHUB_QUEUE!r}.",
                hint=f"Choose one of {known}.",
                id="approvals.E002",
            )
        )
    else:
        named.append(("MAILHUB_QUEUES", settings.MAILHUB_QUEUE, chosen))
    for setting, name, path in named:
        try:
            import_string(path)
        except ImportError as error:
            errors.append(
                Error(
                    f"{setting}[{name!r}]: {error}", hint="Correct the path.", id="approvals.E001"
                )
            )
    return errors


@register(GATE)
def check_queue_server(**_: Any) -> list[CheckMessage]:
    """Return an error if the chosen queue has no server address.

    Without a server every approval would wait for a sweep, and nobody would know why.
    """
    needed = {
        "rq": ("REDIS_URL", settings.REDIS_URL),
        "celery": ("CELERY_BROKER_URL", settings.CELERY_BROKER_URL),
    }
    name, value = needed.get(settings.MAILHUB_QUEUE, ("", "none"))
    if value:
        return []
    return [
        Error(
            f"MAILHUB_QUEUE={settings.MAILHUB_QUEUE} needs {name}.",
            hint=f"Set {name}, or MAILHUB_QUEUE=database, which needs no server.",
            id="approvals.E003",
        )
    ]


@register(Tags.database)
def check_database(databases: Sequence[str] | None = None, **_: Any) -> list[CheckMessage]:
    """Warn if a crash or a power cut may lose a commit, so that a mail would be sent again.

    `migrate` and `check --database default` run it.
    """
    return [
        Warning(
            f"{each} {hint}",
            hint="A crash may forget that a mail was handed over, and it would be sent twice. Change this setting.",
            id="approvals.W001",
        )
        for alias in databases or ()
        for each, hint in _forgetful(connections[alias])
    ]


@register(Tags.database)
def check_own_mail_sender(databases: Sequence[str] | None = None, **_: Any) -> list[CheckMessage]:
    """Warn if mailhub sends its codes from the address of a connected mailbox.

    The ordinary mail of that mailbox has the same address, so only the mark of own mail keeps
    programs away from it. Before the first migration there is no mailbox.
    """
    tables = (
        connections[alias].introspection.table_names()
        for alias in databases or ()
        if alias == "default"
    )
    if (
        not any(Mailbox._meta.db_table in each for each in tables)
        or not own_mail.sender_is_mailbox()
    ):
        return []
    return [
        Warning(
            "DEFAULT_FROM_EMAIL is the address of a mailbox that is connected here.",
            hint="Set DEFAULT_FROM_EMAIL to an address that sends nothing else, such as mailhub@ and your domain.",
            id="approvals.W002",
        )
    ]


def _forgetful(connection: BaseDatabaseWrapper) -> Iterator[tuple[str, str]]:
    """Yield the settings of this connection that let the database lose a commit."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(
                "SELECT name FROM pg_settings WHERE name = ANY(%s) AND setting = 'off'",
                [list(DURABLE)],
            )
            yield from (("PostgreSQL runs with", f"{name} off.") for (name,) in cursor.fetchall())
            return
        cursor.execute("PRAGMA synchronous")
        (level,) = cursor.fetchone()
        if level < SQLITE_FULL:
            yield "SQLite runs with", f"synchronous={level}, and FULL is {SQLITE_FULL}."
