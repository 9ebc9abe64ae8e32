"""What must be true before anything starts."""

from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, register
from django.utils.module_loading import import_string


@register()
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


@register()
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
