"""What the forms of the gate's pages carry."""

from django import forms


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
