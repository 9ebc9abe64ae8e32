"""What must be true before anything starts."""

from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.db import connections
from django.utils.module_loading import import_string

DURABLE = ("fsync", "full_page_writes", "synchronous_commit")
GATE = "gate"  # the tag of what a worker needs, which serves no address and need not load them


@register(GATE)
def every_kind_resolves(**_: Any) -> list[CheckMessage]:
    """A kind that cannot be imported would be found out only after somebody approved one."""
    errors: list[CheckMessage] = []
    named = [("MAILHUB_KINDS", name, path) for name, path in settings.MAILHUB_KINDS.items()]
    # The other queues are left alone: what is not used need not be importable, and costs no time.
    chosen = settings.MAILHUB_QUEUES.get(settings.MAILHUB_QUEUE)
    if chosen is None:
        known = ", ".join(sorted(settings.MAILHUB_QUEUES))
        errors.append(
            Error(f"MAILHUB_QUEUE is {settings.MAILHUB_QUEUE!r}.", hint=f"Choose one of {known}.", id="approvals.E002")
        )
    else:
        named.append(("MAILHUB_QUEUES", settings.MAILHUB_QUEUE, chosen))
    for setting, name, path in named:
        try:
            import_string(path)
        except ImportError as error:
            errors.append(Error(f"{setting}[{name!r}]: {error}", hint="Correct the path.", id="approvals.E001"))
    return errors


@register(GATE)
def the_queue_has_its_server(**_: Any) -> list[CheckMessage]:
    """Without it every approval would wait for a sweep, and nobody would be told why."""
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
def the_database_keeps_what_it_says_it_keeps(databases: Sequence[str] | None = None, **_: Any) -> list[CheckMessage]:
    """What a server forgets in a crash may be that a mail was handed over: it would leave twice. Looked at by `migrate`
    and `check --database default`."""
    warnings: list[CheckMessage] = []
    for alias in databases or ():
        if connections[alias].vendor != "postgresql":
            continue
        with connections[alias].cursor() as cursor:
            cursor.execute("SELECT name FROM pg_settings WHERE name = ANY(%s) AND setting = 'off'", [list(DURABLE)])
            warnings += [
                Warning(
                    f"PostgreSQL runs with {name} off.",
                    hint="A crash may forget that a mail was handed over, and it would leave twice. Turn it on.",
                    id="approvals.W001",
                )
                for (name,) in cursor.fetchall()
            ]
    return warnings
