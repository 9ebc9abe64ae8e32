"""Rows of the queue as HTML.

A page has fifty rows, and a template takes two milliseconds for each. Every value goes through
`format_html` or `_fill`, which escape it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django import template
from django.template import Context
from django.template.defaultfilters import truncatechars
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import conditional_escape, format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext

from accounts.infra.texts import load_texts
from approvals.core.states import Status
from approvals.models import PendingAction
from approvals.templatetags.kind_words import purpose, words_of
from approvals.templatetags.moments import countdown, seconds_left, shown_as
from approvals.templatetags.warning_words import short_form

register = template.Library()

SHOWN_TARGETS = 2
REASON_CHARACTERS = 200
# The list of these states shows them in each row; other rows name a state that is not of the tab.
NAMED = (Status.APPROVED, Status.EXECUTING, Status.CANCELLED, Status.SUPERSEDED)
SORTS = {"mail.reply": "reply", "mail.forward": "forward"}
NOBODY = UUID(int=0)
EMPTY = SafeString()


@register.simple_tag(takes_context=True)
def queue_rows(context: Context, rows: Iterable[PendingAction]) -> SafeString:
    """Return the rows of a tab, for a page that knows `tab`, `asked`, `several` and `may_decide`."""
    page = Rows(
        csrf_token=context.get("csrf_token"),
        statuses=context["tab"].statuses,
        query=context["asked"].query,
        several=context["several"],
        may_decide=context["may_decide"],
    )
    return format_html_join("\n", "{}", ((page.render(row),) for row in rows))


@register.simple_tag
def warning_tags(warnings: Iterable[Mapping[str, Any]]) -> SafeString:
    """Return a tag with the short name of each warning."""
    named = (
        ("bad" if each.get("severity") == "risk" else "warn", _name_warning(each))
        for each in warnings
    )
    return format_html_join(" ", '<span class="tag {}">{}</span>', named)


@dataclass(frozen=True, kw_only=True)
class Rows:
    """The part of a page that its rows depend on, and its texts in the reader's language."""

    csrf_token: Any
    statuses: tuple[Status, ...]
    query: str
    several: bool
    may_decide: bool
    texts: dict[str, str] = field(default_factory=lambda: _load_texts())
    review: str = field(default_factory=lambda: _address("review"))
    peek: str = field(default_factory=lambda: _address("peek"))

    def render(self, row: PendingAction) -> SafeString:
        """Return the row; it comes from `listing`, and may have the names in `looking`."""
        pickable = (
            row.status == Status.PENDING and self.may_decide and Status.PENDING in self.statuses
        )
        undo_for = seconds_left(row.undo_until)
        return format_html(
            ROW,
            pk=row.pk,
            peek=self.peek.format(row.pk),
            left=EMPTY if row.status in self.statuses else SafeString('class="left"'),
            pickable=SafeString(" pickable") if pickable else EMPTY,
            pick=self._pick(row) if pickable else EMPTY,
            to=self._to(row),
            what=self._what(row),
            meta=self._meta(row, undo_for),
            undo=self._undo(row) if undo_for else EMPTY,
        )

    def _pick(self, row: PendingAction) -> SafeString:
        said = _fill(self.texts["select"], subject=_shown(row).get("title", ""))
        return format_html(PICK, row.pk, row.digest, row.revision, said)

    def _to(self, row: PendingAction) -> SafeString:
        targets = _shown(row).get("targets") or ()
        first = (
            format_html(
                '<span class="who-to{}"> <bdi>{}</bdi> {} </span>',
                " out" if target.get("external") else "",
                target["address"],
                format_html('<span class="sr">{}</span>', self.texts["outside"])
                if target.get("external")
                else "",
            )
            for target in targets[:SHOWN_TARGETS]
        )
        people = format_html_join(" ", "{}", ((each,) for each in first))
        more = len(targets) - SHOWN_TARGETS
        sort = words_of(row).get("sort") or self.texts[SORTS.get(row.kind, "new")]
        return format_html(
            "{} {} <small>{} {} </small>",
            people or SafeString('<span class="muted">—</span>'),
            format_html('<span class="muted"> {} </span>', _fill(self.texts["more"], n=more))
            if more > 0
            else EMPTY,
            sort,
            format_html(
                '· <span class="from"> {} </span>',
                _fill(self.texts["from"], mailbox=row.mailbox.address),
            )
            if self.several
            else EMPTY,
        )

    def _what(self, row: PendingAction) -> SafeString:
        shown, address = _shown(row), self.review.format(row.pk)
        if title := shown.get("title"):
            link = format_html('<a href="{}"><bdi>{}</bdi></a>', address, title)
        else:
            removed = self.texts["removed"]
            link = format_html('<a href="{}"><span class="muted">{}</span></a>', address, removed)
        parts = [link]
        if why := purpose(row, shown):
            claim = getattr(row, "reason", "")
            parts.append(
                format_html(
                    '<p class="purpose" dir="auto"> {} {} </p>',
                    why,
                    format_html(
                        '<span class="claimed">{} <bdi>“{}”</bdi></span>',
                        self.texts["claims"],
                        truncatechars(claim, REASON_CHARACTERS),
                    )
                    if claim
                    else EMPTY,
                )
            )
        if excerpt := shown.get("excerpt"):
            parts.append(format_html('<p dir="auto">{}</p>', excerpt))
        parts.append(self._findings(row, shown))
        return format_html_join(" ", "{}", ((part,) for part in parts))

    def _findings(self, row: PendingAction, shown: Mapping[str, Any]) -> SafeString:
        """Return the doubt about a removed action, or what a person should know before they
        decide.
        """
        warnings = shown.get("warnings") or ()
        if row.purged_at and getattr(row, "doubtful", False):
            said = words_of(row).get("may_have_happened") or gettext("May have been sent")
            return format_html('<div class="why"> <span class="tag bad">{}</span> </div>', said)
        if not (warnings or row.returned):
            return EMPTY
        returned = '<span class="tag bad">{}</span>'
        return format_html(
            '<div class="why"> {} {} </div>',
            format_html(returned, gettext("needs a new decision")) if row.returned else EMPTY,
            warning_tags(warnings),
        )

    def _meta(self, row: PendingAction, undo_for: int) -> SafeString:
        parts = [
            format_html("<bdi>{}</bdi>", row.proposer_name or row.proposer),
            shown_as(row.created_at, "ago"),
        ]
        if state := self._state(row, undo_for):
            parts.append(state)
        needed = getattr(row, "needed", 1)
        if row.status == Status.PENDING and needed > 1:
            given = gettext("%(given)s of %(needed)s approvals")
            parts.append(_fill(given, given=row.approvals_given, needed=needed))
        if name := getattr(row, "assigned", ""):
            parts.append(_fill(gettext("assigned to <bdi>%(name)s</bdi>"), name=name))
        if getattr(row, "commented", False):
            parts.append(SafeString(conditional_escape(gettext("commented"))))
        people = getattr(row, "looking", ())
        return format_html(
            '{} <span class="looking" data-looking>{}</span>',
            format_html_join(" ", "<span>{}</span>", ((part,) for part in parts)),
            render_to_string("approvals/reviewing.html", {"people": people}) if people else EMPTY,
        )

    def _state(self, row: PendingAction, undo_for: int) -> SafeString:
        """Return the state in words, if the tab does not say it already."""
        if row.status == Status.PENDING:
            return _fill(self.texts["expires"], when=shown_as(row.expires_at, "until"))
        if row.status == Status.APPROVED and undo_for:
            return _fill(gettext("%(seconds)s s to undo"), seconds=countdown(undo_for))
        said = words_of(row).get(row.status) or row.get_status_display()
        if row.status in NAMED:
            return format_html("{}", said)
        return EMPTY if row.status in self.statuses else format_html("<b>{}</b>", said)

    def _undo(self, row: PendingAction) -> SafeString:
        if row.status != Status.APPROVED or not self.may_decide:
            return EMPTY
        context = {"row": row, "query": self.query, "csrf_token": self.csrf_token}
        return render_to_string("approvals/row_undo.html", context)


ROW = """\
<li id="row-{pk}" data-id="{pk}" data-peek="{peek}" {left}>
  <div class="row{pickable}">
    {pick}
    <div class="to"> {to} </div>
    <div class="what"> {what} </div>
    <div class="meta"> {meta} </div>
    {undo}
  </div>
</li>"""
PICK = """\
<label class="pick">
  <input type="checkbox" form="bulk" name="item" value="{}:{}:{}">
  <span class="sr"> {} </span>
</label>"""


def _load_texts() -> dict[str, str]:
    """Return the texts that most rows show, translated once for a page."""
    return {
        "select": gettext("Select %(subject)s"),
        "outside": gettext("outside the company"),
        "more": gettext("and %(n)s more"),
        "from": gettext("from <bdi>%(mailbox)s</bdi>"),
        "new": gettext("new"),
        "reply": gettext("reply"),
        "forward": gettext("forward"),
        "removed": gettext("Content removed"),
        "claims": gettext("It claims:"),
        "expires": gettext("expires %(when)s"),
    }


def _address(name: str) -> str:
    """Return the address of a page of an action, with `{}` for its id."""
    return reverse(name, args=[NOBODY]).replace(str(NOBODY), "{}")


def _fill(said: str, **values: Any) -> SafeString:
    """Return our own sentence as HTML, with its values escaped."""
    return SafeString(said % {name: conditional_escape(value) for name, value in values.items()})


def _shown(row: PendingAction) -> Mapping[str, Any]:
    return getattr(row, "shown", None) or {}


def _name_warning(warning: Mapping[str, Any]) -> str:
    if short := short_form(warning.get("code", "")):
        return short
    found = load_texts(warning)
    return found.get("title") or found.get("text") or ""
