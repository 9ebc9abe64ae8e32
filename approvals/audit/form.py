"""The filter forms of the audit pages and the export."""

from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django import forms
from django.core.validators import MaxValueValidator, MinValueValidator
from django.utils.timezone import get_current_timezone
from django.utils.translation import gettext_lazy as _

from accounts.models import Mailbox
from approvals.audit.log import Wanted
from approvals.audit.words import GROUPS, Groups, grouped_choices

# Days outside this range are typing errors, and some time zones cannot express them.
DAY: dict[str, Any] = {
    "required": False,
    "widget": forms.DateInput(format="%Y-%m-%d", attrs={"type": "date"}),
    "validators": [MinValueValidator(date(1970, 1, 2)), MaxValueValidator(date(9000, 1, 1))],
    "error_messages": dict.fromkeys(("invalid", "min_value", "max_value"), _("Enter a date.")),
}


class EventForm(forms.Form):
    """Filters, as in the address. Days are in the person's time zone."""

    groups: Groups

    event = forms.ChoiceField(
        label=_("What"),
        required=False,
        error_messages={"invalid_choice": _("No event has this name.")},
    )
    since = forms.DateField(label=_("From date"), **DAY)
    until = forms.DateField(label=_("Until date"), **DAY)

    def __init__(self, data: Any) -> None:
        super().__init__(data, auto_id="f-%s")
        self.fields["event"].choices = grouped_choices(self.groups)  # type: ignore[attr-defined]
        for field in self.fields.values():
            field.widget.attrs["class"] = "input"

    def wanted_by(self, **more: Any) -> Wanted:
        """Return the valid filters that every page has, and more."""
        since, until = self.cleaned_data["since"], self.cleaned_data["until"]
        return Wanted(
            event=self.cleaned_data["event"],
            since=midnight(since) if since else None,
            until=day_after(until) if until else None,
            **more,
        )

    @property
    def query(self) -> str:
        """Return the filters as a query string for another address."""
        return urlencode({name: value for name in self.fields if (value := self.data.get(name))})


class AuditForm(EventForm):
    NO_MAILBOX = "none"
    groups = GROUPS
    field_order = ("mailbox", "event", "kind", "who", "action", "since", "until")

    mailbox = forms.ChoiceField(
        label=_("Mailbox"),
        required=False,
        error_messages={"invalid_choice": _("You do not manage this mailbox.")},
    )
    kind = forms.ChoiceField(
        label=_("Done by"),
        required=False,
        choices=[
            ("", _("everybody")),
            ("user", _("people")),
            ("token", _("programs")),
            ("worker", _("workers")),
            ("command", _("commands on the server")),
        ],
        error_messages={"invalid_choice": _("Choose one from the list.")},
    )
    who = forms.CharField(label=_("E-mail or token"), required=False, max_length=254)
    action = forms.UUIDField(
        label=_("ID of an action"),
        required=False,
        error_messages={"invalid": _("Enter the ID of an action.")},
    )

    def __init__(self, data: Any, *, chains: Mapping[UUID, Mailbox | None]) -> None:
        super().__init__(data)
        self._chains = {
            str(mailbox.pk) if mailbox else self.NO_MAILBOX: key for key, mailbox in chains.items()
        }
        named = {str(mailbox.pk): mailbox.address for mailbox in chains.values() if mailbox}
        server = (
            [(self.NO_MAILBOX, _("none: this server"))] if self.NO_MAILBOX in self._chains else []
        )
        self.fields["mailbox"].choices = [("", _("all")), *named.items(), *server]  # type: ignore[attr-defined]
        self.several = len(self._chains) > 1

    @property
    def chains(self) -> list[UUID]:
        """Return the chains that are asked for; empty if the filters are not valid."""
        if not self.is_valid():
            return []
        asked = self.cleaned_data["mailbox"]
        return [self._chains[asked]] if asked else list(self._chains.values())

    @property
    def wanted(self) -> Wanted:
        if not self.is_valid():
            return Wanted()
        said = self.cleaned_data
        return self.wanted_by(action=said["action"], kind=said["kind"] or None, who=said["who"])


def midnight(day: date) -> datetime:
    """Return when a day begins in the person's time zone."""
    return datetime.combine(day, time.min, tzinfo=get_current_timezone())


def day_after(day: date) -> datetime:
    """Return when a day has ended in the person's time zone."""
    return midnight(day + timedelta(days=1))
