"""The forms of a person's notifications: when they arrive, and how much a channel shows."""

from typing import Any, cast

from django import forms
from django.utils.dates import WEEKDAYS
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from accounts.infra.time_zones import offered_zones, zone_of_reader
from approvals.gate.rules.policy import DAYS
from approvals.models import Content, NotificationSettings
from approvals.outbound.notifications.channels.port import get_transport


class WhenForm(forms.ModelForm):
    """The days and hours at which a person is notified, and their digest."""

    days = forms.MultipleChoiceField(
        label=gettext_lazy("Days"),
        choices=[(day, WEEKDAYS[DAYS.index(day)]) for day in DAYS],
        widget=forms.CheckboxSelectMultiple,
        required=False,
        help_text=gettext_lazy("All of them, or none: every day."),
    )
    time_zone = forms.ChoiceField(label=gettext_lazy("Time zone"), choices=())

    class Meta:
        model = NotificationSettings
        fields = ["quiet_from", "quiet_until", "days", "time_zone", "digest"]
        labels = {
            "quiet_from": gettext_lazy("Quiet from"),
            "quiet_until": gettext_lazy("Quiet until"),
            "digest": gettext_lazy("Digest"),
        }
        help_texts = {
            "quiet_until": gettext_lazy("Notifications wait until then. Empty: no quiet hours."),
            "digest": gettext_lazy("What waits, what was sent and what was not, by mailbox."),
        }
        widgets = {
            name: forms.TimeInput(attrs={"type": "time"}, format="%H:%M")
            for name in ("quiet_from", "quiet_until")
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.initial["days"] = list(self.instance.days or DAYS)
        cast(forms.ChoiceField, self.fields["time_zone"]).choices = [
            (name, name) for name in offered_zones(self.instance.time_zone)
        ]
        if self.instance.quiet_from is None and not self.instance.days:
            self.initial["time_zone"] = zone_of_reader()  # nobody has chosen one yet

    def clean_days(self) -> str:
        days = "".join(sorted(self.cleaned_data["days"]))
        return "" if days == DAYS else days

    def clean(self) -> dict[str, Any]:
        given: dict[str, Any] = super().clean() or {}
        if (given.get("quiet_from") is None) is not (given.get("quiet_until") is None):
            self.add_error("quiet_until", _("Enter both times, or neither."))
        return given


class ContentForm(forms.Form):
    """How much the notifications of a channel show, up to the most of its kind."""

    content = forms.ChoiceField(
        label=gettext_lazy("A message shows"),
        choices=(),
        widget=forms.Select(attrs={"class": "input"}),
    )

    def __init__(self, *args: Any, kind: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        levels = list(Content)
        most = levels.index(get_transport(kind).most)
        cast(forms.ChoiceField, self.fields["content"]).choices = [
            (level.value, level.label) for level in levels[: most + 1]
        ]
