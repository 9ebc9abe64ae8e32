"""Pages that connect a mailbox: its address, then its servers, tested before anything is saved."""

from typing import Any, cast
from urllib.parse import urlencode

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_http_methods

from accounts.connect import discovery
from accounts.connect.connecting import Proof, connect_mailbox
from accounts.connect.imap import ConnectError, ImapAccess, prove
from accounts.connect.ownership import proof_by_imap
from accounts.forms import MailboxAddressField
from accounts.infra.safe_hosts import Endpoint
from accounts.models import Mailbox, Membership, Role, User
from accounts.people.address_proof import is_proven

STEPS = {
    "imap_connect": gettext_lazy("reaching the server for incoming mail"),
    "imap_login": gettext_lazy("signing in to the server for incoming mail"),
    "smtp_connect": gettext_lazy("reaching the server for outgoing mail"),
    "smtp_login": gettext_lazy("signing in to the server for outgoing mail"),
}
HINTS = {
    "app_password": gettext_lazy(
        "This provider asks for an app password, made in its security settings."
    ),
    "allow_imap": gettext_lazy("Allow IMAP in the settings of this provider first."),
    "mail_password": gettext_lazy("This provider has a password for mail programs of its own."),
}
TAKEN = gettext_lazy(
    "This mailbox is connected already, and you do not manage it. Ask who does to invite you."
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
        try:
            endpoint = Endpoint.parse(self.cleaned_data[name].strip())
        except ValueError as error:
            raise forms.ValidationError(str(error)) from None
        if endpoint.security == "plain":  # for the sandbox, and only by command
            raise forms.ValidationError(
                _("Without TLS the password would travel in clear. Use tls or starttls.")
            )
        return endpoint


@login_required
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def begin(request: HttpRequest) -> HttpResponse:
    """Return step 1: the address, which shows who hosts the mailbox or where its servers are."""
    again = _reconnected(request)
    form = AddressForm(request.POST or None, initial={"address": again.address if again else ""})
    if request.method == "POST" and form.is_valid():
        address = form.cleaned_data["address"].lower()
        found = discovery.discover(address)
        if found.how == "nothing" and not is_proven(cast(User, request.user), address):
            # The domain names no servers, so signing in to one will prove nothing.
            return redirect(proving(address))
        return _second(request, address, found)
    return render(request, "accounts/connect.html", {"form": form, "again": again})


def _second(request: HttpRequest, address: str, found: discovery.Found) -> HttpResponse:
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
    context = {"form": form, "found": found, "hint": HINTS.get(found.hint)}
    return render(request, "accounts/connect_imap.html", context)


def proving(address: str, provider: str = "imap") -> str:
    """Return the page that proves an address by a code, and then leads to the form for this
    provider.
    """
    return f"{reverse('prove_address')}?{urlencode({'address': address, 'provider': provider})}"


@login_required
@never_cache
@sensitive_post_parameters("password")
@sensitive_variables("access", "form")
@require_http_methods(["GET", "HEAD", "POST"])
def by_imap(request: HttpRequest) -> HttpResponse:
    """Return step 2: servers and password, tested one after the other. If a step fails, the page
    names it and nothing is saved.
    """
    address = request.GET.get("address", "")
    form = ImapForm(request.POST or None, initial={"address": address, "username": address})
    context: dict[str, Any] = {"form": form}
    if request.method == "POST" and form.is_valid():
        given = form.cleaned_data
        access = ImapAccess(
            imap=given["imap"],
            smtp=given["smtp"],
            username=given["username"],
            password=given["password"],
        )
        try:
            prove(access, on_the_web=True)
        except ConnectError as error:
            context |= {"failed": error, "steps": _steps_until(error.step)}
        else:
            proof = proof_by_imap(cast(User, request.user), given["address"], access)
            if proof is None:
                context["unproven"] = proving(given["address"].lower())
                return render(request, "accounts/connect_imap.html", context, status=403)
            return _connected(
                request,
                address=given["address"],
                provider=Mailbox.Provider.IMAP,
                secrets=access.as_secrets(),
                scopes=["read", "draft", "send"],
                context=context,
                proof=proof,
            )
    return render(
        request,
        "accounts/connect_imap.html",
        context,
        status=422 if request.method == "POST" else 200,
    )


def _steps_until(failed: str) -> list[tuple[str, str]]:
    """Return each step of the test with its result: done, failed, or not tried."""
    order = list(STEPS)
    at = order.index(failed) if failed in order else 0
    return [
        (str(STEPS[step]), "done" if place < at else "failed" if place == at else "not_tried")
        for place, step in enumerate(order)
    ]


def _connected(
    request: HttpRequest,
    *,
    address: str,
    provider: str,
    secrets: dict[str, Any],
    scopes: list[str],
    context: dict[str, Any],
    proof: Proof,
) -> HttpResponse:
    """Save a proven mailbox; refuse one that somebody else manages, without the person's name."""
    try:
        mailbox = connect_mailbox(
            owner=cast(User, request.user),
            address=address,
            provider=provider,
            secrets=secrets,
            scopes=scopes,
            proof=proof,
        )
    except PermissionError:
        context["refused"] = TAKEN
        return render(request, "accounts/connect_imap.html", context, status=403)
    messages.success(request, _("%(address)s is connected.") % {"address": mailbox.address})
    return redirect(f"{reverse('mailboxes')}?connected={mailbox.pk}")


def _reconnected(request: HttpRequest) -> Mailbox | None:
    """Return the mailbox to connect again, if the person manages it."""
    wanted = request.GET.get("mailbox", "")
    managed = Membership.objects.filter(
        user=cast(User, request.user), role=Role.MANAGER
    ).select_related("mailbox")
    return next((each.mailbox for each in managed if str(each.mailbox_id) == wanted), None)
