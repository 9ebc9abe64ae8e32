"""Warnings on pages: their short forms for the queue, and what is usual apart from the rest."""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from django import template
from django.conf import settings
from django.utils.functional import Promise
from django.utils.module_loading import import_string
from django.utils.translation import gettext_lazy as _

from accounts.infra.texts import load_texts
from approvals.gate.rules.conditions import VOID

register = template.Library()

# Of our own codes; each package of warnings has those of its codes.
SHORT: dict[str, Promise] = {
    "may_have_been_sent": _("may have happened already"),
    **dict.fromkeys((*VOID, "decided_before"), _("came back")),
    "token_revoked": _("token revoked"),
    "token_narrowed": _("token limited"),
    "mailbox_changed": _("another account"),
    "undone": _("approval undone"),
    "changes_requested": _("changes requested"),
}


@cache
def _short_forms() -> Mapping[str, Promise | str]:
    return {**import_string(settings.MAILHUB_WARNINGS), **SHORT}


@register.filter
def short_name(warning: Mapping[str, Any]) -> Promise | str:
    """Return the short form of a warning, or else its title."""
    if short := _short_forms().get(warning.get("code", "")):
        return short
    found = load_texts(warning)
    return found.get("title") or found.get("text") or ""


@register.filter
def unusual(warnings: Iterable[Mapping[str, Any]] | None) -> list[Mapping[str, Any]]:
    """Return the warnings without the facts, which are usual; the risks come first."""
    unusual = [each for each in warnings or () if each.get("severity") != "fact"]
    return sorted(unusual, key=lambda each: each.get("severity") != "risk")


@register.filter
def facts(warnings: Iterable[Mapping[str, Any]] | None) -> list[Mapping[str, Any]]:
    return [each for each in warnings or () if each.get("severity") == "fact"]


@register.filter
def risks(warnings: Iterable[Mapping[str, Any]] | None) -> list[Mapping[str, Any]]:
    return [each for each in warnings or () if each.get("severity") == "risk"]


@register.filter
def codes(warnings: Iterable[Mapping[str, Any]] | None) -> str:
    return " ".join(sorted({str(each["code"]) for each in warnings or ()}))


@register.filter
def domain(address: str) -> str:
    return address.rpartition("@")[2]
