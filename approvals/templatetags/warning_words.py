"""Warnings on pages: their short forms for the queue, and what is usual apart from the rest."""

from collections.abc import Iterable, Mapping
from typing import Any

from django import template
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from accounts.infra.texts import load_texts
from approvals.gate.rules.conditions import VOID

register = template.Library()

SHORT: dict[str, Promise] = {
    "external_recipient": _("outside the company"),
    "first_time_recipient": _("first mail to this address"),
    "lookalike_domain": _("looks like another domain"),
    "many_recipients": _("many recipients"),
    "reply_all": _("reply to all"),
    "bcc": _("blind copy"),
    "signature_lost": _("signature lost"),
    "draft_was_sent": _("draft sent before?"),
    "possible_duplicate": _("possible duplicate"),
    "attachment_missing": _("attachment missing?"),
    "attachment_type": _("file type does not match"),
    "link_mismatch": _("link leads elsewhere"),
    "long_query": _("long link"),
    "hidden_text": _("hidden text"),
    "alternatives_differ": _("two different texts"),
    "hidden_part": _("part not shown"),
    "remote_content": _("remote content"),
    "reply_to_differs": _("replies go elsewhere"),
    "sender_unconfirmed": _("sender may be forged"),
    "secret": _("contains a secret"),
    "payment_details": _("bank details or hidden link"),
    "unfilled_placeholder": _("not filled in"),
    "model_artifact": _("words of the AI"),
    "injection": _("instructions to an AI"),
    "bidi": _("reading order is changed"),
    "thread_moved": _("newer mail in the conversation"),
    "thread_unread": _("conversation not searched"),
    "no_sent_copy": _("no copy in Sent"),
    "may_have_been_sent": _("may have happened already"),
    "content_removed": _("parts removed"),
    **dict.fromkeys((*VOID, "decided_before"), _("came back")),
    "token_revoked": _("token revoked"),
    "token_narrowed": _("token limited"),
    "mailbox_changed": _("another account"),
    "undone": _("approval undone"),
    "changes_requested": _("changes requested"),
}


@register.filter
def short_form(code: str) -> str:
    """Return the short form of the warning with this code, or an empty text."""
    return str(SHORT.get(code, ""))


@register.filter
def short_name(warning: Mapping[str, Any]) -> str:
    """Return the short form of a warning, or else its title."""
    if short := short_form(warning.get("code", "")):
        return short
    found = load_texts(warning)
    return found.get("title") or found.get("text") or ""


@register.filter
def unusual(warnings: Iterable[Mapping[str, Any]] | None) -> list[Mapping[str, Any]]:
    """Return the warnings without the facts, which are usual."""
    return [each for each in warnings or () if each.get("severity") != "fact"]


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
