"""The forms on the gate's pages."""

from typing import get_args

from django import forms

from approvals.gate.rulings import Ruling


class ApproveForm(forms.Form):
    """The digest and revision that were shown, and the mark of a restore; nothing else is needed to
    approve.

    A passkey may answer in the same form, for a mail that needs a fresh sign-in.
    """

    digest = forms.RegexField(r"^[0-9a-f]{64}$")
    revision = forms.IntegerField(min_value=1)
    restored = forms.CharField(required=False)
    credential = forms.CharField(required=False, max_length=20_000)


class CancelForm(forms.Form):
    """The digest and revision that were shown, if the page sent them: only those are withdrawn."""

    digest = forms.RegexField(r"^[0-9a-f]{64}$", required=False, empty_value=None)
    revision = forms.IntegerField(min_value=1, required=False)


class RejectForm(CancelForm):
    note = forms.CharField(required=False, max_length=2000)
    passage = forms.CharField(required=False, max_length=1000)


class ResolveForm(forms.Form):
    """A ruling, the fence of its attempt, and the mark of a restore that the page showed."""

    fence = forms.IntegerField(min_value=1)
    restored = forms.CharField(required=False)
    ruling = forms.ChoiceField(choices=[(each, each) for each in get_args(Ruling)])


class SavedViewForm(forms.Form):
    name = forms.CharField(max_length=60)
