"""The endpoints that programs call: metadata, registration, tokens, revocation and device codes."""

from collections.abc import Callable
from typing import Any

from allauth.idp.oidc.internal.oauthlib.utils import get_validator_context
from allauth.idp.oidc.models import Client
from django.conf import settings
from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.urls import reverse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST, require_safe
from oauthlib.oauth2.rfc6749.errors import OAuth2Error

from accounts.access.audience import PATHS, issuer
from accounts.access.quotas import take
from accounts.infra.json_bodies import read_json
from accounts.infra.networks import network_of
from accounts.infra.problems import Problem
from accounts.models import SCOPES, USUAL_SCOPES
from accounts.oauth import devices, metadata, programs
from accounts.views.oauth_messages import Asked, read_request, read_resources, to_response


@require_safe
def server_metadata(request: HttpRequest, path: str = "") -> HttpResponse:
    """Return RFC 8414; programs also ask for it with the path of the surface that they want."""
    _check_path(path)
    return JsonResponse(metadata.describe_server())


@require_safe
def resource_metadata(request: HttpRequest, path: str = "") -> HttpResponse:
    """Return RFC 9728 for the surface at a path, or for the whole server."""
    _check_path(path)
    return JsonResponse(metadata.describe_resource(f"/{path}" if path else ""))


def _check_path(path: str) -> None:
    if path and f"/{path}" not in PATHS.values():
        raise Http404


@csrf_exempt
@require_POST
def register(request: HttpRequest) -> HttpResponse:
    """Register a program (RFC 7591). It gets an id and no right: only a person gives one."""
    if settings.MAILHUB_OAUTH_REGISTRATION == "off":
        return _error("access_denied", "This server does not let programs register.", status=403)
    try:
        take(programs.OF_NETWORK, network_of(request) or "unknown")
        asked = read_json(request)
    except Problem as problem:
        if problem.code == "rate_limited":
            return _busy(problem)
        return _error("invalid_client_metadata", "Send a JSON object.")
    from allauth.idp.oidc.forms import ClientRegistrationForm  # brings requests

    form = ClientRegistrationForm(data=asked)
    try:
        is_valid = form.is_valid()
    except RecursionError:  # a text in place of a list, which the form parses
        return _error("invalid_client_metadata", "A field is nested too deep.")
    if not is_valid:
        wrong = ", ".join(sorted(form.errors))
        error = "redirect_uri" if list(form.errors) == ["redirect_uris"] else "client_metadata"
        return _error(f"invalid_{error}", f"These fields are missing or not valid: {wrong}.")
    try:
        given = form.cleaned_data
        client = programs.register(
            given["client_name"],
            given["redirect_uris"],
            device=programs.DEVICE_GRANT in given["grant_types"],
        )
    except ValidationError as error:
        return _error("invalid_redirect_uri", " ".join(error.messages))
    return JsonResponse(_describe(client), status=201)


def _describe(client: Client) -> dict[str, Any]:
    return {
        "client_id": client.pk,
        "client_name": client.name,
        "client_id_issued_at": int(client.created_at.timestamp()),
        "token_endpoint_auth_method": "none",
        "redirect_uris": client.get_redirect_uris(),
        "grant_types": client.get_grant_types(),
        "response_types": client.get_response_types(),
        "scope": " ".join(USUAL_SCOPES),
    }


@csrf_exempt
@require_POST
@sensitive_post_parameters()
def token(request: HttpRequest) -> HttpResponse:
    """Give out tokens for a code, a refresh token or a device code that a person has allowed."""
    return _ask_library(request, lambda server, asked: server.create_token_response(*asked))


@csrf_exempt
@require_POST
@sensitive_post_parameters()
def revoke(request: HttpRequest) -> HttpResponse:
    """Let a program give its tokens back (RFC 7009)."""
    return _ask_library(request, lambda server, asked: server.create_revocation_response(*asked))


def _ask_library(request: HttpRequest, ask: Callable[[Any, Asked], Any]) -> HttpResponse:
    from accounts.oauth.server import Server  # brings requests

    try:
        get_validator_context().requested_resources = read_resources(request.POST)
    except ValidationError:
        return _error("invalid_target", "The resource is not on this server.")
    try:
        return to_response(*ask(Server(), read_request(request)))
    except OAuth2Error as error:
        return to_response(dict(error.headers), error.json, error.status_code)


@csrf_exempt
@require_POST
def device_code(request: HttpRequest) -> HttpResponse:
    """Give a program without a browser a code that a person can type (RFC 8628)."""
    client_id = request.POST.get("client_id", "")
    scopes = [scope for scope in request.POST.get("scope", "").split() if scope in SCOPES]
    network = network_of(request) or "unknown"
    try:
        take(programs.DEVICES, network)
        resources = read_resources(request.POST)
        programs.refresh(client_id, subject=f"network:{network}")
    except ValidationError:
        return _error("invalid_target", "The resource is not on this server.")
    except Problem as problem:
        is_busy = problem.code in ("rate_limited", "transient")
        return _busy(problem) if is_busy else _unknown_program()
    client = programs.find(client_id)
    if client is None:
        return _unknown_program()
    if request.POST.get("scope", "").split() and not scopes:
        return _error("invalid_scope", "None of these scopes exists here.")
    if programs.DEVICE_GRANT not in client.get_grant_types():
        return _error("unauthorized_client", "This program did not register for device codes.")
    found = devices.begin(
        client, scopes=scopes or list(USUAL_SCOPES), resources=resources or [issuer()]
    )
    page = issuer() + reverse("oauth_device")
    return JsonResponse(
        {
            **found,
            "verification_uri": page,
            "verification_uri_complete": f"{page}?code={found['user_code']}",
        }
    )


def _unknown_program() -> HttpResponse:
    return _error("invalid_client", "This program is not known here. Register it first.", 401)


def _busy(problem: Problem) -> HttpResponse:
    response = _error("temporarily_unavailable", problem.detail, status=429)
    response["Retry-After"] = str(problem.retry_after)
    return response


def _error(code: str, description: str, status: int = 400) -> HttpResponse:
    return JsonResponse({"error": code, "error_description": description}, status=status)
