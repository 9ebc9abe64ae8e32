"""Page that proves a mailbox's address before it is connected, by a code that is mailed there."""

from typing import Any
from urllib.parse import urlencode

from django import forms
from django.conf import settings
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.debug import sensitive_post_parameters

from accounts.access.signed_in import AuthenticatedRequest, signed_in_form
from accounts.forms import MailboxAddressField
from accounts.infra.problems import Problem
from accounts.models import Mailbox, User
from accounts.people.address_proof import is_proven, mail_code, prove_by_code

WRONG = gettext_lazy(
    "This code is wrong or too old. Check the newest e-mail, or send another code."
)


class AskedForm(forms.Form):
    """The address to prove, and the provider with which the person continues."""

    address = MailboxAddressField(max_length=254)
    provider = forms.ChoiceField(choices=Mailbox.Provider.choices)


class CodeForm(forms.Form):
    code = forms.CharField(
        label=gettext_lazy("Code from the e-mail"),
        max_length=20,
        widget=forms.TextInput(
            attrs={
                "autocomplete": "one-time-code",
                "autocapitalize": "characters",
                "spellcheck": "false",
            }
        ),
    )


@signed_in_form
@sensitive_post_parameters("code")
def prove_address(request: AuthenticatedRequest) -> HttpResponse:
    """Mail a code on one button, compare it on the other; then lead to the page that connects."""
    asked = AskedForm(request.POST or request.GET)
    if not asked.is_valid():
        return redirect("connect")
    person = request.user
    address, provider = asked.cleaned_data["address"].lower(), asked.cleaned_data["provider"]
    if is_proven(person, address):
        return redirect(_form_url(address, provider))
    context: dict[str, Any] = {
        "address": address,
        "provider": provider,
        "form": CodeForm(),
        "sends_mail": settings.SENDS_MAIL,
    }
    status = 200
    if request.method == "POST" and settings.SENDS_MAIL:
        if "send" in request.POST:
            status, more = _send(person, address)
            context |= more
        else:
            form = CodeForm(request.POST)
            if form.is_valid() and prove_by_code(person, address, form.cleaned_data["code"]):
                messages.success(
                    request, _("You have proven that %(address)s is yours.") % {"address": address}
                )
                return redirect(_form_url(address, provider))
            if form.is_valid():
                form.add_error("code", str(WRONG))
            status = 422
            context |= {"form": form, "sent": True}
    return render(request, "accounts/prove_address.html", context, status=status)


def _send(person: User, address: str) -> tuple[int, dict[str, Any]]:
    """Mail a code; return the status of the page and what it shows."""
    try:
        if mail_code(person, address):
            return 200, {"sent": True}
    except Problem as problem:
        return problem.status, {"refused": problem.detail, "sent": True}
    refused = _("The mail server of this installation did not take the e-mail. Try again later.")
    return 503, {"refused": refused}


def _form_url(address: str, provider: str) -> str:
    page = (
        reverse("connect_imap") if provider == "imap" else reverse("connect_oauth", args=[provider])
    )
    return f"{page}?{urlencode({'address': address})}"
