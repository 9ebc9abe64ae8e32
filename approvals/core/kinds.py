"""Lookup of the kind of an action by its name."""

from functools import cache
from typing import cast

from django.conf import settings
from django.utils.module_loading import import_string

from approvals.core.types import ActionKind


@cache
def get_kind(name: str) -> ActionKind:
    """Return the kind that settings.MAILHUB_KINDS names.

    A system check proves at start that each path resolves.
    """
    return cast(ActionKind, import_string(settings.MAILHUB_KINDS[name])())
