"""What the forms of the gate's pages carry."""

from collections.abc import Sequence
from typing import Any, cast
from uuid import UUID

from django import forms
from django.utils.translation import gettext_lazy

from accounts.models import ApiToken
from approvals.webhooks.events import EVENTS, SECURITY


class ApproveForm(forms.Form):
    """The seal and revision of what was shown; nothing else is needed to approve."""

    digest = forms.RegexField(r"^[0-9a-f]{64}$")
    revision = forms.IntegerField(min_value=1)


class CancelForm(forms.Form):
    """What was shown, when the page has said it: then nothing else is withdrawn."""

    digest = forms.RegexField(r"^[0-9a-f]{64}$", required=False, empty_value=None)
    revision = forms.IntegerField(min_value=1, required=False)


class RejectForm(CancelForm):
    note = forms.CharField(required=False, max_length=2000)


class ResolveForm(forms.Form):
    """A ruling, and the fence of the attempt that it is about."""

    fence = forms.IntegerField(min_value=1)
    ruling = forms.ChoiceField(choices=[("sent", "sent"), ("not_sent", "not_sent")])


class SavedViewForm(forms.Form):
    name = forms.CharField(max_length=60)


class WebhookForm(forms.Form):
    """Whom to tell what; `able` are the tokens that may have webhooks."""

    token = forms.ModelChoiceField(label=gettext_lazy("Token"), queryset=ApiToken.objects.none(), empty_label=None)
    url = forms.CharField(
        label=gettext_lazy("Address"), max_length=500, help_text=gettext_lazy("https, on port 443 or 8443")
    )
    events = forms.MultipleChoiceField(
        label=gettext_lazy("Tell it"), widget=forms.CheckboxSelectMultiple, choices=[(name, name) for name in EVENTS],
        initial=list(EVENTS),
    )  # fmt: skip

    def __init__(self, *args: Any, able: Sequence[UUID], staff: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if staff:
            cast(forms.MultipleChoiceField, self.fields["events"]).choices = [
                *((name, name) for name in EVENTS),
                (SECURITY, gettext_lazy("security events of all people")),
            ]
        self.fields["url"].widget.attrs |= {"placeholder": "https://", "inputmode": "url", "autocomplete": "off"}
        cast(forms.ModelChoiceField, self.fields["token"]).queryset = ApiToken.objects.filter(pk__in=able)
