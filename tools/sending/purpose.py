"""Why a mail is here, in one line of HTML: only facts of its proposal, never a judgement."""

from collections.abc import Mapping
from typing import Any

from django.utils.html import conditional_escape, format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext

from tools.mail.message.content import Original

# The sender of the original chose both.
NAME_CHARACTERS = 80
SUBJECT_CHARACTERS = 150


def describe_original(original: Original | None) -> dict[str, Any]:
    """Return the member of a preview's `parts` about the mail that is answered or forwarded."""
    if original is None:
        return {}
    shown = {
        "from": original.from_address,
        "from_name": _on_one_line(original.from_name)[:NAME_CHARACTERS],
        "subject": _on_one_line(original.subject)[:SUBJECT_CHARACTERS],
    }
    return {"original": shown}


def explain_mail(kind: str, tool: str, preview: Mapping[str, Any], proposer: str) -> SafeString:
    """Return the line about a mail; `proposer` is HTML."""
    original = (preview.get("parts") or {}).get("original")
    people = name_targets(preview)
    if kind == "mail.reply" and original:
        said = gettext("%(proposer)s answers “%(subject)s” from %(author)s.")
    elif kind == "mail.forward" and original:
        said = gettext("%(proposer)s forwards “%(subject)s” from %(author)s to %(people)s.")
    elif kind == "mail.reply":
        said = gettext("%(proposer)s answers a mail, to %(people)s.")
    elif kind == "mail.forward":
        said = gettext("%(proposer)s forwards a mail to %(people)s.")
    elif tool == "send_draft":
        said = gettext("%(proposer)s sends a draft to %(people)s.")
    else:
        said = gettext("%(proposer)s writes a new mail to %(people)s.")
    original = original or {}
    return fill(
        said,
        proposer=proposer,
        people=people,
        subject=_isolate(original.get("subject") or gettext("(no subject)")),
        author=_name_author(original),
    )


def name_targets(preview: Mapping[str, Any]) -> str:
    """Return the first recipient as HTML, and how many more there are."""
    targets = [target["address"] for target in preview.get("targets") or ()]
    if not targets:
        return gettext("nobody")
    more = len(targets) - 1
    first = _isolate(targets[0])
    if not more:
        return first
    said = ngettext("%(first)s and %(n)s more", "%(first)s and %(n)s more", more)
    return fill(said, first=first, n=str(more))


def fill(said: str, **values: str) -> SafeString:
    """Return a sentence as HTML: it and the values are escaped, unless a value is HTML already."""
    safe = {name: conditional_escape(value) for name, value in values.items()}
    return SafeString(conditional_escape(said) % safe)


def _name_author(original: Mapping[str, str]) -> str:
    address = _isolate(original.get("from", ""))
    name = original.get("from_name")
    return format_html("{} ({})", _isolate(name), address) if name else address


def _isolate(text: str) -> SafeString:
    return format_html("<bdi>{}</bdi>", text)


def _on_one_line(text: str) -> str:
    return " ".join(text.split())
