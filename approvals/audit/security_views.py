"""Security events for staff: sign-ins, failed sign-ins, and changes of sign-in methods."""

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from django import forms
from django.db.models import Q
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext_lazy as _

from accounts.access.signed_in import AuthenticatedRequest, signed_in_page
from accounts.infra.foreign_text import parse_uuid
from accounts.infra.problems import Problem
from accounts.models import Mailbox
from approvals.audit.form import EventForm
from approvals.audit.log import (
    WINDOW,
    Logged,
    Row,
    actors_with_tokens,
    details_of,
    names_of,
    page,
    people_of,
)
from approvals.audit.words import PEOPLE_GROUPS, words_of
from approvals.models import AuditEvent
from approvals.models.audit import PEOPLE

PAGE = 50
MOST_NAMED = 10
SHOWN_BY_NAME = frozenset({"subject", "method", "network"})


@signed_in_page
def index(request: AuthenticatedRequest) -> HttpResponse:
    """Show the events, newest first. The address holds the filters."""
    if not request.user.is_staff:
        raise Http404
    form = SecurityForm(request.GET)
    try:
        logged = form.events(request.GET.get("cursor"), limit=PAGE)
    except Problem:  # an address that somebody typed or cut
        return redirect(f"{request.path}?{form.query}")
    context = {"form": form, "rows": rows_of(logged), "logged": logged, "window": WINDOW}
    return render(request, "approvals/security_events.html", context)


class SecurityForm(EventForm):
    groups = PEOPLE_GROUPS
    field_order = ("event", "person", "network", "since", "until")

    person = forms.CharField(label=_("Person (e-mail)"), required=False, max_length=254)
    network = forms.CharField(
        label=_("Network"),
        required=False,
        max_length=50,
        widget=forms.TextInput({"placeholder": "203.0.113.0/24"}),
    )

    def events(self, cursor: str | None, *, limit: int) -> Logged:
        """Return one page; it is empty if the filters are not valid.

        Raises Problem for a wrong cursor.
        """
        if not self.is_valid():
            return Logged(rows=[], next_cursor=None)
        asked = self.cleaned_data
        also = Q(data__network=asked["network"].strip()) if asked["network"].strip() else Q()
        wanted = self.wanted_by(also=also & _filter_by_person(asked["person"]))
        return page([PEOPLE], wanted, cursor=cursor, limit=limit)


def rows_of(logged: Logged) -> list[Row]:
    """Return the events of a page in words; names are looked up once."""
    names = names_of(logged.rows) | _addresses_of(logged.rows)
    return [_row(event, names) for event in logged.rows]


def _addresses_of(events: Iterable[AuditEvent]) -> dict[str, str]:
    ids = {key for event in events for key in _mailboxes_of(event)}
    return {
        str(key): address
        for key, address in Mailbox.objects.filter(pk__in=ids).values_list("pk", "address")
    }


def _mailboxes_of(event: AuditEvent) -> list[UUID]:
    """Return the ids of mailboxes in an event. Any value may be stored there."""
    given = event.data.get("mailboxes") if isinstance(event.data, dict) else None
    return list(filter(None, map(parse_uuid, map(str, given if isinstance(given, list) else []))))


def _row(event: AuditEvent, names: Mapping[str, str]) -> Row:
    data: dict[str, Any] = event.data if isinstance(event.data, dict) else {}
    about = names.get(f"user:{data.get('subject', '')}", "")
    return Row(
        event=event,
        words=words_of(event.event),
        who=names[event.actor],
        about=about if about != names[event.actor] else "",
        method=str(data.get("method", ""))[:60],
        network=str(data.get("network", ""))[:60],
        details=[
            (name, _mailboxes_in_words(event, names) or value if name == "mailboxes" else value)
            for name, value in details_of(event, names, but=SHOWN_BY_NAME)
        ],
    )


def _mailboxes_in_words(event: AuditEvent, names: Mapping[str, str]) -> str:
    return ", ".join(names.get(str(key), str(key)) for key in _mailboxes_of(event)[:MOST_NAMED])


def _filter_by_person(email: str) -> Q:
    """Return the condition for events by a person or their tokens, or about that person."""
    if not email.strip():
        return Q()
    people = people_of(email)
    actors = actors_with_tokens(people, Q(user__in=people))
    return Q(actor__in=actors) | Q(data__subject__in=[str(key) for key in people])
