"""The pages on which a person decides what a program, or a device with a code, may do."""

import re
from datetime import timedelta
from typing import Any
from urllib.parse import quote

from allauth.idp.oidc.internal.oauthlib.utils import get_validator_context
from allauth.idp.oidc.models import Client, Token
from csp.decorators import csp_update
from django.core.exceptions import ValidationError
from django.db import transaction
from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from oauthlib.common import add_params_to_uri
from oauthlib.oauth2.rfc6749.errors import (
    FatalClientError,
    InvalidClientIdError,
    InvalidRequestError,
    InvalidScopeError,
    MismatchingRedirectURIError,
    MissingClientIdError,
    OAuth2Error,
)

from accounts.access.audience import issuer
from accounts.access.roles import connected_of
from accounts.access.signed_in import AuthenticatedRequest, signed_in_form
from accounts.forms import ConsentForm, DeviceCodeForm
from accounts.infra.problems import Problem
from accounts.models import SCOPES, ApiToken, Mailbox, User
from accounts.oauth import devices, grants, programs, redirects
from accounts.views.oauth_messages import read_request, read_resources

# A SHA-256 in base64 for addresses (RFC 7636, 4.2).
CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")


class _Leave(HttpResponse):
    """A redirect to a program, whose scheme Django's own class does not know."""

    status_code = 302

    def __init__(self, to: str) -> None:
        super().__init__()
        self["Location"] = quote(to, safe="!#$%&'()*+,/:;=?@[]~")


@signed_in_form
def authorize(request: AuthenticatedRequest) -> HttpResponseBase:
    """Ask a person whether a program may act in their name, and send the answer to the program.

    The form posts to the same address, so the request of the program is checked again.
    """
    from accounts.oauth.server import Server  # brings requests

    server, asked = Server(), read_request(request)
    asked = (asked[0], "GET", "", asked[3])  # the library must not see the fields of the form
    try:
        programs.refresh(request.GET.get("client_id", ""), subject=f"user:{request.user.pk}")
        resources = read_resources(request.GET)
        get_validator_context().requested_resources = resources or [issuer()]
        asked_scopes, about = server.validate_authorization_request(*asked)
        # A link with a challenge of its maker could leave the code where the program's own server
        # does not take it: in a fragment, which scripts and redirects there may hand on.
        in_query = request.GET.get("response_mode", "query") == "query"
        if not in_query or not CHALLENGE.fullmatch(request.GET.get("code_challenge", "")):
            raise InvalidRequestError(request=about["request"])
    except Problem as problem:
        return _refuse(request, problem.detail)
    except ValidationError:
        return _refuse(request, _("The program asks for access to another server than this one."))
    except FatalClientError as error:
        return _refuse(request, _reason(error))
    except OAuth2Error as error:
        # Anybody can register a program, so an error leads away only by a person's own click (RFC
        # 9700, 4.11.2).
        return _refuse(request, _reason(error), _with_issuer(error.in_uri(error.redirect_uri)))
    client, to = about["request"].client, about["redirect_uri"]
    if not programs.is_allowed(client):
        return _refuse(request, _not_accepted())
    if request.method == "POST" and request.POST.get("answer") != "allow":
        return _deny(to, about["state"])
    form = make_form(request, asked_scopes)
    if request.method == "POST" and form.is_valid():
        with transaction.atomic():
            grant = _give(request.user, client, form)
            answer = server.create_authorization_response(
                *asked, scopes=grant.scopes, credentials={"user": request.user, "grant": grant}
            )
        return _Leave(_with_issuer(answer[0]["Location"]))
    page = render(
        request,
        "accounts/oauth_consent.html",
        {"form": form, "program": programs.describe(client, to), "person": request.user},
    )
    # The browser also checks where the answer to a form leads.
    return csp_update({"form-action": [redirects.form_action_of(to)]})(lambda _: page)(request)


def make_form(request: AuthenticatedRequest, asked: list[str]) -> ConsentForm:
    """Return the form with what a person can give; nothing beyond reading is ticked."""
    person = request.user
    return ConsentForm(
        request.POST if "answer" in request.POST else None,
        offered=grants.offered_scopes(person, [scope for scope in asked if scope in SCOPES]),
        mailboxes=connected_of(person),
    )


def _give(person: User, client: Client, form: ConsentForm, *, unproven: bool = False) -> ApiToken:
    wanted = form.cleaned_data
    mailboxes: list[Mailbox] = list(wanted["mailboxes"])
    return grants.give(
        person,
        client,
        scopes=wanted["scopes"],
        mailboxes=mailboxes,
        lifetime=timedelta(days=int(wanted["days"])),
        unproven=unproven,
    )


def _deny(to: str, state: str | None) -> HttpResponse:
    fields = [("error", "access_denied"), *([("state", state)] if state else [])]
    return _Leave(_with_issuer(add_params_to_uri(to, fields)))


def _with_issuer(to: str) -> str:
    """Add the server's name (RFC 9207), so that a program with several does not mix them up."""
    return str(add_params_to_uri(to, [("iss", issuer())]))


def _reason(error: OAuth2Error) -> str:
    if isinstance(error, InvalidClientIdError | MissingClientIdError):
        return _("This program is not known here. Start the sign-in again in the program.")
    if isinstance(error, MismatchingRedirectURIError):
        return _("The program wants to return to another address than the one it registered.")
    if isinstance(error, InvalidScopeError):
        return _("The program asks for rights that do not exist here.")
    return _("The program's request is not complete. It needs a PKCE challenge (S256).")


def _not_accepted() -> str:
    return _("This server does not accept this program. Ask your administrator.")


def _refuse(request: AuthenticatedRequest, reason: str, back: str = "") -> HttpResponse:
    context: dict[str, Any] = {
        "reason": reason,
        "back": back,
        "host": redirects.host_of(back) if back else "",
    }
    return render(request, "accounts/oauth_refused.html", context, status=400)


# --- Device codes


@signed_in_form
def device(request: AuthenticatedRequest) -> HttpResponse:
    """Ask for the code that a program shows, then for what the program may do."""
    posted = request.POST if request.method == "POST" else None
    form = DeviceCodeForm(posted, initial={"code": request.GET.get("code", "")})
    waiting: Token | None = None
    # Any other page can make a browser read an address, so only a POST counts as a guess.
    if form.is_valid():
        try:
            waiting = devices.find(request.user, form.cleaned_data["code"])
        except Problem as problem:
            form.add_error("code", problem.detail.localize())
        else:
            if waiting is None:
                form.add_error(
                    "code", _("This code is unknown or too old. Start again in the program.")
                )
    if waiting is None or waiting.client is None:
        return render(request, "accounts/oauth_device.html", {"form": form})
    return _decide(request, waiting, waiting.client)


def _decide(request: AuthenticatedRequest, waiting: Token, client: Client) -> HttpResponse:
    if not programs.is_allowed(client):
        return _refuse(request, _not_accepted())
    program = programs.describe(client, proven=False)
    if request.POST.get("answer", "allow") != "allow":
        devices.answer(waiting, request.user, None)
        return render(request, "accounts/oauth_device_done.html", {"program": program})
    form = make_form(request, waiting.get_scopes())
    if form.is_valid():
        with transaction.atomic():
            grant = _give(request.user, client, form, unproven=True)
            if not devices.answer(waiting, request.user, grant):
                transaction.set_rollback(True)  # somebody else answered, or the code is too old
                return redirect("oauth_device")
        context = {"program": program, "allowed": True}
        return render(request, "accounts/oauth_device_done.html", context)
    context = {
        "form": form,
        "program": program,
        "person": request.user,
        "code": request.POST["code"],
    }
    return render(request, "accounts/oauth_consent.html", context)
