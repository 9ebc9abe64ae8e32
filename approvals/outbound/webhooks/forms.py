"""The form for a new webhook."""

from collections.abc import Sequence
from typing import Any, cast
from uuid import UUID

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from accounts.models import ApiToken
from approvals.outbound.webhooks.events import SECURITY
from approvals.reports.steps import EVENTS


class WebhookForm(forms.Form):
    """A new webhook: its token, address and events.

    `able` holds the ids of the tokens that may have webhooks.
    """

    token = forms.ModelChoiceField(
        label=gettext_lazy("Token"), queryset=ApiToken.objects.none(), empty_label=None
    )
    url = forms.CharField(
        label=gettext_lazy("Address"),
        max_length=500,
        help_text=gettext_lazy("https, on port 443 or 8443"),
        required=False,
    )
    callbacks = forms.BooleanField(
        label=gettext_lazy("Instead: for the callback addresses that proposals of this token name"),
        required=False,
    )
    events = forms.MultipleChoiceField(
        label=gettext_lazy("Events"),
        widget=forms.CheckboxSelectMultiple,
        choices=[(name, name) for name in EVENTS],
        initial=list(EVENTS),
    )

    def __init__(
        self, *args: Any, able: Sequence[UUID], staff: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        if staff:
            cast(forms.MultipleChoiceField, self.fields["events"]).choices = [
                *((name, name) for name in EVENTS),
                (SECURITY, gettext_lazy("security events of all people")),
            ]
        self.fields["url"].widget.attrs |= {
            "placeholder": "https://",
            "inputmode": "url",
            "autocomplete": "off",
        }
        cast(forms.ModelChoiceField, self.fields["token"]).queryset = ApiToken.objects.filter(
            pk__in=able
        )

    def clean(self) -> dict[str, Any]:
        given: dict[str, Any] = super().clean() or {}
        if bool(given.get("url")) == bool(given.get("callbacks")) and "url" not in self.errors:
            self.add_error("url", _("Write an address, or choose callbacks."))
        return given
