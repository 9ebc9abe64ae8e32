"""Page that proves a mailbox's address before it is connected: a code is mailed there and typed in
here.
"""

from typing import Any, cast
from urllib.parse import urlencode

from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from accounts.forms import MailboxAddressField
from accounts.infra.problems import Problem
from accounts.models import Mailbox, User
from accounts.people.address_proof import is_proven, mail_code, prove_by_code

WRONG = gettext_lazy(
    "This is not the code, or it is too old. Check the newest e-mail, or send another code."
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


@login_required
@never_cache
@sensitive_post_parameters("code")
@require_http_methods(["GET", "HEAD", "POST"])
def prove_address(request: HttpRequest) -> HttpResponse:
    """Mail a code on one button, compare it on the other; then redirect to the page that connects
    the mailbox.
    """
    asked = AskedForm(request.POST or request.GET)
    if not asked.is_valid():
        return redirect("connect")
    person = cast(User, request.user)
    address, provider = asked.cleaned_data["address"].lower(), asked.cleaned_data["provider"]
    if is_proven(person, address):
        return redirect(_onward(address, provider))
    context: dict[str, Any] = {
        "address": address,
        "provider": provider,
        "form": CodeForm(),
        "sends_mail": settings.SENDS_MAIL,
    }
    if request.method != "POST" or not settings.SENDS_MAIL:
        return render(request, "accounts/prove_address.html", context)
    if "send" in request.POST:
        return _send(request, person, address, context)
    form = CodeForm(request.POST)
    if form.is_valid() and prove_by_code(person, address, form.cleaned_data["code"]):
        messages.success(
            request, _("%(address)s is yours: the code was right.") % {"address": address}
        )
        return redirect(_onward(address, provider))
    if form.is_valid():
        form.add_error("code", str(WRONG))
    return render(
        request, "accounts/prove_address.html", context | {"form": form, "sent": True}, status=422
    )


def _send(
    request: HttpRequest, person: User, address: str, context: dict[str, Any]
) -> HttpResponse:
    try:
        sent = mail_code(person, address)
    except Problem as problem:
        return render(
            request,
            "accounts/prove_address.html",
            context | {"refused": problem.detail, "sent": True},
            status=problem.status,
        )
    if not sent:
        refused = _(
            "The mail server of this installation did not take the e-mail. Try again later."
        )
        return render(
            request, "accounts/prove_address.html", context | {"refused": refused}, status=503
        )
    return render(request, "accounts/prove_address.html", context | {"sent": True})


def _onward(address: str, provider: str) -> str:
    page = (
        reverse("connect_imap") if provider == "imap" else reverse("connect_oauth", args=[provider])
    )
    return f"{page}?{urlencode({'address': address})}"
