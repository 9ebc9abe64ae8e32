"""The rules of a mailbox as a form with fields inside sentences."""

import re
from typing import Any, cast

from django import forms
from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.utils.dates import WEEKDAYS
from django.utils.translation import gettext_lazy as _

from accounts.infra.idn import ascii_domain, plain_address
from accounts.infra.time_zones import offered_zones
from approvals.gate.rules.policy import DAYS
from approvals.models import ApprovalPolicy, Content

LONGEST_LIST = 500
DOMAIN = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z0-9-]{2,63}")
YES_NO = ((True, _("may approve it")), (False, _("may not approve it")))


class RecipientList(forms.CharField):
    """Addresses and domains, by line or comma; a domain includes its subdomains."""

    widget = forms.Textarea(attrs={"rows": 2})

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(value) if isinstance(value, list) else value

    def to_python(self, value: Any) -> Any:
        entries = sorted(
            {self._entry(part) for part in re.split(r"[\s,;]+", str(value or "")) if part}
        )
        if len(entries) > LONGEST_LIST:
            raise ValidationError(_("At most 500 entries."))
        return entries

    def _entry(self, part: str) -> str:
        entry = part.lower().removeprefix("*.").removeprefix("@").rstrip(".")
        is_address = "@" in entry
        try:
            written = plain_address(entry) if is_address else ascii_domain(entry)
            if is_address:
                validate_email(written)
            elif not DOMAIN.fullmatch(written):
                raise ValidationError("")
        except (ValueError, ValidationError):
            raise ValidationError(
                _("“%(part)s” is neither an address nor a domain."), params={"part": part[:80]}
            ) from None
        return written


class DomainList(RecipientList):
    """Domains, by line or comma."""

    def _entry(self, part: str) -> str:
        entry = super()._entry(part)
        if "@" in entry:
            raise ValidationError(_("“%(part)s” is not a domain."), params={"part": part[:80]})
        return entry


class RulesForm(forms.Form):
    """The form of the rules; an empty number means the value of the environment, or no limit."""

    approver_role = forms.ChoiceField(choices=ApprovalPolicy.Approvers.choices)
    approvals_needed = forms.IntegerField(min_value=1, max_value=5)
    self_approval = forms.TypedChoiceField(choices=YES_NO, coerce=lambda value: value == "True")
    files_opened = forms.BooleanField(required=False)
    action_hours = forms.IntegerField(min_value=1, max_value=720, required=False)
    approval_minutes = forms.IntegerField(min_value=1, max_value=43_200, required=False)
    undo_seconds = forms.IntegerField(min_value=0, max_value=3600, required=False)
    allowed = RecipientList(required=False)
    refused = RecipientList(required=False)
    confirmed_domains = DomainList(required=False)
    daily_cap = forms.IntegerField(min_value=1, max_value=100_000, required=False)
    open_days = forms.MultipleChoiceField(
        choices=[(day, WEEKDAYS[DAYS.index(day)]) for day in DAYS],
        widget=forms.CheckboxSelectMultiple,
        required=False,
    )
    open_from = forms.TimeField(
        required=False, widget=forms.TimeInput(attrs={"type": "time"}, format="%H:%M")
    )
    open_until = forms.TimeField(
        required=False, widget=forms.TimeInput(attrs={"type": "time"}, format="%H:%M")
    )
    time_zone = forms.ChoiceField(choices=())
    notify_content = forms.ChoiceField(choices=Content.choices)
    notify_urgent = forms.BooleanField(required=False)
    escalation_minutes = forms.IntegerField(min_value=0, max_value=43_200, required=False)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["action_hours"].widget.attrs["placeholder"] = str(
            settings.MAILHUB_ACTION_TTL_HOURS
        )
        self.fields["undo_seconds"].widget.attrs["placeholder"] = str(settings.MAILHUB_UNDO_SECONDS)
        cast(forms.ChoiceField, self.fields["time_zone"]).choices = [
            (name, name) for name in offered_zones(self.initial.get("time_zone", ""))
        ]

    def clean_open_days(self) -> str:
        days = "".join(sorted(self.cleaned_data["open_days"]))
        return "" if days == DAYS else days

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        opens, closes = cleaned.get("open_from"), cleaned.get("open_until")
        if "open_from" in cleaned and "open_until" in cleaned:
            if (opens is None) is not (closes is None):
                self.add_error("open_until", _("Enter both times, or neither."))
            elif opens is not None and closes is not None and closes <= opens:
                self.add_error(
                    "open_until", _("The end must be later than the start, on the same day.")
                )
        return cleaned
