"""What must be true before anything starts."""

from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, register
from django.utils.module_loading import import_string


@register()
def every_kind_resolves(**_: Any) -> list[CheckMessage]:
    """A kind that cannot be imported would be found out only after somebody approved one."""
    errors: list[CheckMessage] = []
    for setting, paths in (("MAILHUB_KINDS", settings.MAILHUB_KINDS), ("MAILHUB_QUEUES", settings.MAILHUB_QUEUES)):
        for name, path in paths.items():
            try:
                import_string(path)
            except ImportError as error:
                errors.append(Error(f"{setting}[{name!r}]: {error}", hint="Correct the path.", id="approvals.E001"))
    return errors
