"""The forms on the gate's pages."""

from django import forms


class ApproveForm(forms.Form):
    """The digest and revision that were shown; nothing else is needed to approve."""

    digest = forms.RegexField(r"^[0-9a-f]{64}$")
    revision = forms.IntegerField(min_value=1)


class CancelForm(forms.Form):
    """The digest and revision that were shown, if the page sent them: only those are withdrawn."""

    digest = forms.RegexField(r"^[0-9a-f]{64}$", required=False, empty_value=None)
    revision = forms.IntegerField(min_value=1, required=False)


class RejectForm(CancelForm):
    note = forms.CharField(required=False, max_length=2000)


class ResolveForm(forms.Form):
    """A ruling, and the fence of its attempt."""

    fence = forms.IntegerField(min_value=1)
    ruling = forms.ChoiceField(choices=[("sent", "sent"), ("not_sent", "not_sent")])


class SavedViewForm(forms.Form):
    name = forms.CharField(max_length=60)
