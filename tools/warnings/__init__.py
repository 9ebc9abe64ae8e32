"""The warnings for a person who decides: each is a small pure function of message and context.

The HTML is judged as it was proposed; the cleaned HTML leaves. High risk (severity `risk`) asks for
a fresh sign-in and cannot be approved in bulk. A `fact` is usual, and no warning for a person.
"""

from collections.abc import Mapping
from typing import Any

from approvals.core.types import PreviewWarning
from tools.mail.message.compose import OutgoingMessage
from tools.mail.message.hidden import HiddenText, hidden_texts
from tools.warnings import course, files, parts, payments, recipients, slips, targets, wording
from tools.warnings.checks import Check
from tools.warnings.context import Context, KnownDomain, Later, Unconfirmed

__all__ = [
    "CHECKS",
    "SHORT",
    "Context",
    "KnownDomain",
    "Later",
    "Unconfirmed",
    "find_warnings",
    "judge_message",
]

ORDER = ("risk", "notice", "fact")
# A person reads the warnings in this order, and those of a module in its own; high risks first.
MODULES = (recipients, wording, payments, slips, targets, parts, course, files)
CHECKS: Mapping[str, Check] = {
    name: each
    for module in MODULES
    for name, each in vars(module).items()
    if isinstance(each, Check)
}
SHORT = {name: each.short for name, each in CHECKS.items()}


def find_warnings(message: OutgoingMessage, context: Context) -> tuple[PreviewWarning, ...]:
    """Return all warnings that apply, high risks first and facts last, in a stable order."""
    found = [warning for check in CHECKS.values() if (warning := check(message, context))]
    return tuple(sorted(found, key=lambda warning: ORDER.index(warning.severity)))


def judge_message(
    message: OutgoingMessage, context: Context
) -> tuple[tuple[dict[str, Any], ...], tuple[HiddenText, ...]]:
    """Return all warnings that apply and the hidden texts: one job for a limited process.

    The warnings are JSON, because a text would lose its source between two processes.
    """
    warnings = tuple(warning.as_json() for warning in find_warnings(message, context))
    return warnings, hidden_texts(message.request.content, message.request.subject)
