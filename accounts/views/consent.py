"""Pages that connect a mailbox by OAuth: to the provider and back, with state in the session."""

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.debug import sensitive_variables

from accounts.access.provider_calls import limit_waiting
from accounts.access.signed_in import AuthenticatedRequest, signed_in_form, signed_in_page
from accounts.connect import google, microsoft
from accounts.connect.connecting import ANOTHER_ACCOUNT, AnotherAccount, connect_mailbox
from accounts.connect.consent import WAYS, is_set_up
from accounts.connect.refreshing import CannotConnect
from accounts.infra.foreign_text import origin_of
from accounts.infra.problems import Problem
from accounts.people.address_proof import is_proven
from accounts.views.connect import TAKEN, AddressForm, proof_url

ASKED = "asked_for_consent"
UNPROVEN = gettext_lazy(
    "Microsoft lists this address only as a contact address of the account, which its administrators can set freely."
)


@signed_in_form
@sensitive_variables("kept")
def begin(request: AuthenticatedRequest, provider: str) -> HttpResponse:
    """Show the permissions, then redirect to the provider; state and verifier stay here."""
    way = WAYS.get(provider)
    if way is None:
        raise Http404
    form = AddressForm(request.POST or request.GET)
    if request.method != "POST" and form.is_valid():
        return page(request, address=form.cleaned_data["address"], provider=provider)
    if not form.is_valid():
        return redirect("connect")
    address = form.cleaned_data["address"].lower()
    try:
        with limit_waiting(request.user.pk):
            url, kept = way.begin(
                settings.MAILHUB_PUBLIC_URL + reverse("oauth_answer", args=[provider]), address
            )
    except (CannotConnect, Problem) as error:
        return page(request, address=address, provider=provider, refused=_sentence(error))
    request.session[ASKED] = {"provider": provider, "address": address, "kept": kept}
    return redirect(url)


@signed_in_page
@sensitive_variables("asked", "granted")
def answer(request: AuthenticatedRequest, provider: str) -> HttpResponse:
    """Finish the sign-in with the provider's answer. The stored request is used only once."""
    asked: dict[str, Any] = request.session.pop(ASKED, {})
    if asked.get("provider") != provider or provider not in WAYS:
        said = _("This sign-in did not start in this browser, so nothing was saved. Start again.")
        return page(request, address="", provider=provider, refused=said)
    address = asked["address"]
    try:
        with limit_waiting(request.user.pk):
            granted = WAYS[provider].finish(
                asked["kept"],
                request.GET.dict(),
                request.build_absolute_uri(),
                address,
            )
    except (CannotConnect, Problem) as error:
        return page(request, address=address, provider=provider, refused=_sentence(error))
    person = request.user
    if not (granted.proven or is_proven(person, address)):
        return page(
            request, address=address, provider=provider, refused=str(UNPROVEN), unproven=True
        )
    try:
        mailbox = connect_mailbox(
            owner=person,
            address=address,
            provider=provider,
            secrets=granted.secrets,
            scopes=granted.scopes,
            proof="sign_in" if granted.proven else "code",
        )
    except AnotherAccount:
        return page(request, address=address, provider=provider, refused=ANOTHER_ACCOUNT)
    except PermissionError:
        return page(request, address=address, provider=provider, refused=str(TAKEN))
    messages.success(request, _("%(address)s is connected.") % {"address": mailbox.address})
    if not {"send", "Mail.Send"} & set(granted.scopes):
        messages.warning(
            request,
            _(
                "You did not give the permission to send. mailhub can read this mailbox, but not send from it."
            ),
        )
    return redirect(f"{reverse('mailboxes')}?connected={mailbox.pk}")


def _sentence(error: CannotConnect | Problem) -> str:
    return str(error.detail if isinstance(error, Problem) else error)


def page(
    request: HttpRequest, *, address: str, provider: str, refused: str = "", unproven: bool = False
) -> HttpResponse:
    """Return the page with the permissions and the button that leads to the provider.

    Browsers apply the page's policy to the redirects of its forms, so the policy names the
    provider's origin.
    """
    context = {
        "address": address,
        "provider": provider,
        "refused": refused,
        "asks": _abilities_of(provider),
        "is_set_up": is_set_up(provider),
    }
    context["unproven"] = proof_url(address, provider) if unproven else ""
    response = render(
        request, "accounts/connect_oauth.html", context, status=403 if refused else 200
    )
    # Set as django-csp's decorator sets it, because that accepts only constant values.
    authority = settings.MICROSOFT_AUTHORITY or "https://login.microsoftonline.com"
    door = settings.GOOGLE_AUTH_URI if provider == "gmail" else authority
    response._csp_update = {"form-action": [origin_of(door)]}  # type: ignore[attr-defined]
    return response


def _abilities_of(provider: str) -> set[str]:
    """Return the abilities that the provider will ask the person for."""
    if provider == "gmail":
        return set(google.abilities_of(google.WANTED))
    words = {microsoft.READ: {"read"}, microsoft.DRAFT: {"read", "draft"}, microsoft.SEND: {"send"}}
    return {word for name in microsoft.default_permissions() for word in words[name]}
