"""The page of the texts for reviewers of a mailbox; only its managers change them."""

from uuid import UUID

from django import forms
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _

from accounts.access.signed_in import AuthenticatedRequest, signed_in_action, signed_in_form
from accounts.infra.problems import Problem
from accounts.models import Role
from approvals.models import ReviewText
from approvals.pages import discussion
from approvals.pages.mailboxes.mailbox_views import membership_of, render_mailbox

INPUT = {"class": "input"}


class ReviewTextForm(forms.Form):
    purpose = forms.ChoiceField(choices=ReviewText.Purpose.choices, widget=forms.Select(INPUT))
    title = forms.CharField(max_length=60, widget=forms.TextInput(INPUT))
    words = forms.CharField(max_length=2000, widget=forms.Textarea({**INPUT, "rows": 3}))


@signed_in_form
def texts(request: AuthenticatedRequest, mailbox_id: UUID) -> HttpResponse:
    """Show the texts, and add one."""
    return _edit(request, mailbox_id, ReviewText())


@signed_in_form
def text(request: AuthenticatedRequest, mailbox_id: UUID, text_id: int) -> HttpResponse:
    """Show one text in the form, and change it."""
    membership = membership_of(request, mailbox_id)
    found = get_object_or_404(discussion.texts_of(membership.mailbox), pk=text_id)
    return _edit(request, mailbox_id, found)


@signed_in_action
def remove(request: AuthenticatedRequest, mailbox_id: UUID, text_id: int) -> HttpResponse:
    mailbox = membership_of(request, mailbox_id).mailbox
    found = get_object_or_404(discussion.texts_of(mailbox), pk=text_id)
    try:
        discussion.remove_text(mailbox=mailbox, person=request.user, text=found)
    except Problem as problem:
        return render_mailbox(request, mailbox, problem=problem)
    messages.success(request, _("Text removed."))
    return redirect("texts", mailbox.pk)


def _edit(request: AuthenticatedRequest, mailbox_id: UUID, edited: ReviewText) -> HttpResponse:
    """Render the form for a text, which may be a new one; a valid POST stores it."""
    membership = membership_of(request, mailbox_id)
    mailbox = membership.mailbox
    if membership.role != Role.MANAGER:
        problem = Problem("forbidden", "Only managers of this mailbox can do this.")
        return render_mailbox(request, mailbox, problem=problem)
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
