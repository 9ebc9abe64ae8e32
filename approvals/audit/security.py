"""The page of security events: its filters and rows."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django import forms
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from accounts.models import ApiToken, Mailbox, User
from approvals.audit.form import DAY, day_after, midnight
from approvals.audit.log import Logged, Wanted, actors_of, details_of, names_of, page
from approvals.audit.words import PEOPLE_GROUPS, grouped_choices, words_of
from approvals.models import AuditEvent
from approvals.models.audit import PEOPLE

MOST_NAMED = 10
SHOWN_BY_NAME = frozenset({"subject", "method", "network"})


@dataclass(frozen=True, kw_only=True)
class SecurityRow:
    """One event in words: the actor, the person, the method, and the network."""

    event: AuditEvent
    words: str
    who: str
    about: str
    method: str
    network: str
    details: list[tuple[str, str]]


class SecurityForm(forms.Form):
    """Filters, as in the address. Days are in the person's time zone."""

    event = forms.ChoiceField(
        label=_("What"),
        required=False,
        choices=grouped_choices(PEOPLE_GROUPS),
        error_messages={"invalid_choice": _("No event has this name.")},
    )
    person = forms.CharField(label=_("Person (e-mail)"), required=False, max_length=254)
    network = forms.CharField(label=_("Network"), required=False, max_length=50)
    since = forms.DateField(label=_("From date"), **DAY)
    until = forms.DateField(label=_("Until date"), **DAY)

    def __init__(self, data: Any) -> None:
        super().__init__(data, auto_id="f-%s")
        for field in self.fields.values():
            field.widget.attrs["class"] = "input"
        self.fields["network"].widget.attrs["placeholder"] = "203.0.113.0/24"

    @property
    def query(self) -> str:
        """Return the filters as a query string for another address."""
        return urlencode({name: value for name in self.fields if (value := self.data.get(name))})

    def events(self, cursor: str | None, *, limit: int) -> Logged:
        """Return one page; it is empty if the filters are not valid.

        Raises Problem for a wrong cursor.
        """
        if not self.is_valid():
            return Logged(rows=[], next_cursor=None)
        asked = self.cleaned_data
        also = Q(data__network=asked["network"].strip()) if asked["network"].strip() else Q()
        wanted = Wanted(
            event=asked["event"],
            since=midnight(asked["since"]) if asked["since"] else None,
            until=day_after(asked["until"]) if asked["until"] else None,
            also=also & _filter_by_person(asked["person"]),
        )
        return page([PEOPLE], wanted, cursor=cursor, limit=limit)


def rows_of(logged: Logged) -> list[SecurityRow]:
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
    found = []
    for each in given if isinstance(given, list) else []:
        with suppress(ValueError):
            found.append(UUID(str(each)))
    return found


def _row(event: AuditEvent, names: Mapping[str, str]) -> SecurityRow:
    data: dict[str, Any] = event.data if isinstance(event.data, dict) else {}
    about = names.get(f"user:{data.get('subject', '')}", "")
    return SecurityRow(
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
    people = User.objects.filter(email=email.strip().lower()).values_list("pk", flat=True)
    tokens = ApiToken.objects.filter(user__in=people).values_list("pk", flat=True)
    actors = [*actors_of(people), *(f"token:{key}" for key in tokens)]
    return Q(actor__in=actors) | Q(data__subject__in=[str(key) for key in people])
