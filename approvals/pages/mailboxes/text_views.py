"""The page of the texts for reviewers of a mailbox; only its managers change them."""

from uuid import UUID

from django import forms
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _

from accounts.access.signed_in import AuthenticatedRequest, signed_in_action, signed_in_form
from accounts.infra.problems import Problem
from accounts.models import Mailbox
from approvals.models import ReviewText
from approvals.pages import discussion
from approvals.pages.mailboxes.mailbox_views import for_managers, for_members

INPUT = {"class": "input"}


class ReviewTextForm(forms.Form):
    purpose = forms.ChoiceField(choices=ReviewText.Purpose.choices, widget=forms.Select(INPUT))
    title = forms.CharField(max_length=60, widget=forms.TextInput(INPUT))
    words = forms.CharField(max_length=2000, widget=forms.Textarea({**INPUT, "rows": 3}))


@signed_in_form
def texts(request: AuthenticatedRequest, mailbox_id: UUID) -> HttpResponse:
    """Show the texts, and add one."""
    return _edit(request, mailbox_id, edited=ReviewText())


@signed_in_form
@for_members
def text(request: AuthenticatedRequest, mailbox: Mailbox, text_id: int) -> HttpResponse:
    """Show one text in the form, and change it."""
    found = get_object_or_404(discussion.texts_of(mailbox), pk=text_id)
    return _edit(request, mailbox.pk, edited=found)


@signed_in_action
@for_members
def remove(request: AuthenticatedRequest, mailbox: Mailbox, text_id: int) -> HttpResponse:
    found = get_object_or_404(discussion.texts_of(mailbox), pk=text_id)
    discussion.remove_text(mailbox=mailbox, person=request.user, text=found)
    messages.success(request, _("Text removed."))
    return redirect("texts", mailbox.pk)


@for_managers
def _edit(request: AuthenticatedRequest, mailbox: Mailbox, edited: ReviewText) -> HttpResponse:
    """Render the form for a text, which may be a new one; a valid POST stores it."""
    initial = {"purpose": edited.purpose, "title": edited.title, "words": edited.text}
    form = ReviewTextForm(request.POST or None, initial=initial)
    if request.method == "POST" and form.is_valid():
        try:
            discussion.save_text(
                mailbox=mailbox, person=request.user, text=edited, **form.cleaned_data
            )
        except Problem as problem:
            form.add_error(None, str(problem.detail))
        else:
            messages.success(request, _("Text saved."))
            return redirect("texts", mailbox.pk)
    found = discussion.texts_of(mailbox)
    context = {"mailbox": mailbox, "form": form, "texts": found, "edited": edited}
    return render(request, "approvals/texts.html", context, status=422 if form.errors else 200)
