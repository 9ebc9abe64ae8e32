"""Pages that connect a mailbox: its address, then its servers, tested before anything is saved."""

from pathlib import Path
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
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables

from accounts.access.provider_calls import limit_waiting
from accounts.access.signed_in import AuthenticatedRequest, signed_in_form
from accounts.connect import discovery
from accounts.connect.connecting import connect_mailbox
from accounts.connect.imap import ConnectError, ImapAccess, prove
from accounts.connect.ownership import proof_by_imap
from accounts.forms import MailboxAddressField
from accounts.infra.problems import Problem
from accounts.infra.safe_hosts import Endpoint
from accounts.models import Mailbox, Membership, Role
from accounts.people.address_proof import is_proven
from accounts.people.second_factor import lacks_factor

STEPS = {
    "imap_connect": gettext_lazy("reaching the server for incoming mail"),
    "imap_login": gettext_lazy("signing in to the server for incoming mail"),
    "smtp_connect": gettext_lazy("reaching the server for outgoing mail"),
    "smtp_login": gettext_lazy("signing in to the server for outgoing mail"),
}
HINTS = {
    "app_password": gettext_lazy(
        "This provider needs an app password. Create one in its security settings."
    ),
    "allow_imap": gettext_lazy("Turn on IMAP in the settings of this provider first."),
    "mail_password": gettext_lazy("This provider uses a separate password for mail programs."),
}
TAKEN = gettext_lazy(
    "This mailbox is already connected, and you do not manage it. Ask one of its managers to invite you."
)


class AddressForm(forms.Form):
    address = MailboxAddressField(
        label=gettext_lazy("E-mail address of the mailbox"), max_length=254
    )


class ImapForm(forms.Form):
    """Servers, user name and password of one mailbox."""

    address = MailboxAddressField(label=gettext_lazy("E-mail address"), max_length=254)
    imap = forms.CharField(
        label=gettext_lazy("Server for incoming mail (IMAP), as host:port"), max_length=300
    )
    smtp = forms.CharField(
        label=gettext_lazy("Server for outgoing mail (SMTP), as host:port"), max_length=300
    )
    username = forms.CharField(label=gettext_lazy("User name"), max_length=254)
    password = forms.CharField(
        label=gettext_lazy("Password"),
        max_length=500,
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "off"}),
    )

    def clean_imap(self) -> Endpoint:
        return self._endpoint("imap")

    def clean_smtp(self) -> Endpoint:
        return self._endpoint("smtp")

    def _endpoint(self, name: str) -> Endpoint:
        given = self.cleaned_data[name].strip()
        address = self.cleaned_data.get("address", "")
        try:
            endpoint = Endpoint.parse(given)
        except ValueError as error:
            raise forms.ValidationError(str(error)) from None
        if given in (settings.MAILHUB_SANDBOX_SERVERS_OF(address.lower()) or ()):
            return endpoint
        if endpoint.security == "plain":  # only by command
            raise forms.ValidationError(
                _("Without TLS, the password is sent unencrypted. Use tls or starttls.")
            )
        return endpoint


@signed_in_form
def begin(request: AuthenticatedRequest) -> HttpResponse:
    """Return step 1: the address, which shows who hosts the mailbox or where its servers are."""
    again = _find_reconnected(request)
    form = AddressForm(request.POST or None, initial={"address": again.address if again else ""})
    if request.method == "POST" and form.is_valid():
        address = form.cleaned_data["address"].lower()
        try:
            with limit_waiting(request.user.pk):
                found = discovery.discover(address)
        except Problem as problem:
            messages.error(request, problem.detail)
            return redirect("connect")
        if found.how == "nothing" and not is_proven(request.user, address):
            # The domain names no servers, so signing in to one will prove nothing.
            return redirect(proof_url(address))
        return _show_second_step(request, address, found)
    context = {
        "form": form,
        "again": again,
        "in_sandbox": bool(settings.MAILHUB_SANDBOX_SERVERS_OF(request.user.email)),
        "sandbox_file": Path(settings.MAILHUB_HOME) / "sandbox.json",
    }
    return render(request, "accounts/connect.html", context)


def _show_second_step(
    request: AuthenticatedRequest, address: str, found: discovery.Found
) -> HttpResponse:
    if found.provider != "imap":
        return redirect(
            f"{reverse('connect_oauth', args=[found.provider])}?{urlencode({'address': address})}"
        )
    form = ImapForm(
        initial={
            "address": address,
            "imap": found.imap,
            "smtp": found.smtp,
            "username": found.username or address,
        }
    )
    context = {
        "form": form,
        "found": found,
        "hint": HINTS.get(found.hint),
        "sandbox_file": Path(settings.MAILHUB_HOME) / "sandbox.json",
    }
    return render(request, "accounts/connect_imap.html", context)


def proof_url(address: str, provider: str = "imap") -> str:
    """Return the page that proves an address by a code, then leads to the form of this provider."""
    return f"{reverse('prove_address')}?{urlencode({'address': address, 'provider': provider})}"


@signed_in_form
@sensitive_post_parameters("password")
@sensitive_variables("access", "form", "given")
def by_imap(request: AuthenticatedRequest) -> HttpResponse:
    """Return step 2: servers and password, tested one after the other. If a step fails, the page
    names it and nothing is saved.
    """
    address = request.GET.get("address", "")
    form = ImapForm(request.POST or None, initial={"address": address, "username": address})
    if request.method != "POST":
        return _render_imap(request, form, status=200)
    if not form.is_valid():
        return _render_imap(request, form, status=422)
    given = form.cleaned_data
    access = ImapAccess(
        imap=given["imap"],
        smtp=given["smtp"],
        username=given["username"],
        password=given["password"],
    )
    try:
        with limit_waiting(request.user.pk):
            prove(access, on_the_web=True)
            proof = proof_by_imap(request.user, given["address"], access)
    except Problem as problem:
        messages.error(request, problem.detail)
        return _render_imap(request, form, status=503)
    except ConnectError as error:
        steps = _steps_until(error.step)
        return _render_imap(request, form, status=422, failed=error, steps=steps)
    if proof is None:
        unproven = proof_url(given["address"].lower())
        return _render_imap(request, form, status=403, unproven=unproven)
    try:
        mailbox = connect_mailbox(
            owner=request.user,
            address=given["address"],
            provider=Mailbox.Provider.IMAP,
            secrets=access.as_secrets(),
            scopes=["read", "draft", "send"],
            proof=proof,
        )
    except PermissionError:
        # The page does not name the person who manages it.
        return _render_imap(request, form, status=403, refused=TAKEN)
    messages.success(request, _("%(address)s is connected.") % {"address": mailbox.address})
    if lacks_factor(request.user):  # the page of folders would ask for one in the middle of this
        return redirect("mailboxes")
    return redirect("folders", mailbox.pk)


def _render_imap(
    request: AuthenticatedRequest, form: ImapForm, *, status: int, **more: Any
) -> HttpResponse:
    context = {"form": form, **more}
    return render(request, "accounts/connect_imap.html", context, status=status)


def _steps_until(failed: str) -> list[tuple[str, str]]:
    """Return each step of the test with its result: done, failed, or not tried."""
    order = list(STEPS)
    at = order.index(failed) if failed in order else 0
    return [
        (str(STEPS[step]), "done" if place < at else "failed" if place == at else "not_tried")
        for place, step in enumerate(order)
    ]


def _find_reconnected(request: AuthenticatedRequest) -> Mailbox | None:
    """Return the mailbox to connect again, if the person manages it."""
    wanted = request.GET.get("mailbox", "")
    managed = Membership.objects.filter(user=request.user, role=Role.MANAGER).select_related(
        "mailbox"
    )
    return next((each.mailbox for each in managed if str(each.mailbox_id) == wanted), None)
