"""The page of deputies: naming one for a period, and ending it early."""

from datetime import date
from typing import Any, cast

from django import forms
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.timezone import localdate
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from accounts.access.auth import sign_in_method
from accounts.access.signed_in import AuthenticatedRequest, signed_in_action, signed_in_form
from accounts.infra.problems import Problem
from accounts.models import User
from approvals.audit.form import DAY, day_after, midnight
from approvals.mailboxes import deputies as services


class DeputyForm(forms.Form):
    """A colleague and a period; days are in the person's time zone."""

    deputy = forms.ModelChoiceField(
        User.objects.none(),
        label=gettext_lazy("Deputy"),
        empty_label=gettext_lazy("Choose a person"),
    )
    since = forms.DateField(label=gettext_lazy("First day"), **{**DAY, "required": True})
    until = forms.DateField(label=gettext_lazy("Last day"), **{**DAY, "required": True})

    def __init__(self, person: User, data: Any = None) -> None:
        super().__init__(data, initial={"since": localdate()})
        cast(
            "forms.ModelChoiceField[User]", self.fields["deputy"]
        ).queryset = services.colleagues_of(person).order_by("email")
        for field in self.fields.values():
            field.widget.attrs["class"] = "input"

    def clean_since(self) -> date:
        since: date = self.cleaned_data["since"]
        if since < localdate():
            raise ValidationError(_("Choose today or a later day."))
        return since


@signed_in_form
def index(request: AuthenticatedRequest) -> HttpResponse:
    """Show the deputyships of and for this person, and name a deputy."""
    person = request.user
    form = DeputyForm(person, request.POST if request.method == "POST" else None)
    problem = None
    if form.is_valid():
        asked = form.cleaned_data
        try:
            services.name_deputy(
                person=person,
                deputy=asked["deputy"],
                starts_at=midnight(asked["since"]),
                ends_at=day_after(asked["until"]),
                method=sign_in_method(request),
            )
        except Problem as refusal:
            problem = refusal
        else:
            messages.success(request, _("Deputy named."))
            return redirect("deputies")
    return _render(request, form, problem)


@signed_in_action
def end(request: AuthenticatedRequest, row_id: int) -> HttpResponse:
    try:
        services.end_deputyship(row_id=row_id, person=request.user)
    except Problem as problem:
        return _render(request, DeputyForm(request.user), problem)
    messages.success(request, _("Deputyship ended."))
    return redirect("deputies")


def _render(request: HttpRequest, form: DeputyForm, problem: Problem | None) -> HttpResponse:
    person = cast(User, request.user)
    present, past = services.deputyships_of(person)
    context = {
        "form": form,
        "problem": problem,
        "present": present,
        "past": past,
        "colleagues": services.colleagues_of(person).exists(),
    }
    status = problem.status if problem else 422 if form.errors else 200
    return render(request, "approvals/deputies.html", context, status=status)
