"""Pages for tokens of programs: create, show once, rotate and revoke them, and list requests."""

from datetime import timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.core.paginator import Paginator
from django.db import IntegrityError, transaction
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.debug import sensitive_variables

from accounts.access.signed_in import (
    AuthenticatedRequest,
    signed_in_action,
    signed_in_form,
    signed_in_page,
)
from accounts.audit_hook import record_event
from accounts.forms import AccessForm, TokenForm
from accounts.infra.first_rows import first_rows
from accounts.models import SCOPES, ApiToken, RequestRecord
from accounts.oauth import grants, programs

PAGE = 50
SEARCHED = 10_000  # of a person's requests, which may be millions


@signed_in_page
def index(request: AuthenticatedRequest) -> HttpResponse:
    mine = (
        ApiToken.objects.filter(user=request.user)
        .select_related("client")
        .prefetch_related("mailboxes")
    )
    rows: list[dict[str, Any]] = [
        {
            "token": token,
            "scopes": [SCOPES.get(scope, scope) for scope in token.scopes],
            "program": programs.describe(token.client, proven=not token.unproven)
            if token.client
            else None,
        }
        for token in mine.filter(revoked_at=None).order_by("created_at")
    ]
    revoked = mine.exclude(revoked_at=None).order_by("-revoked_at")[:PAGE]
    sandbox = (
        any(row["token"].name == "sandbox" for row in rows)
        and "sandbox" in settings.MAILHUB_LOOPBACK_SERVERS
    )
    context = {
        "rows": rows,
        "revoked": revoked,
        "sandbox": sandbox,
        "commands_run": bool(settings.MCP_M365_START_CMD),
    }
    return render(request, "accounts/tokens.html", context)


@signed_in_form
@sensitive_variables("secret")
def create(request: AuthenticatedRequest) -> HttpResponse:
    """Make a token; only the answer to this POST shows its secret."""
    person = request.user
    form = TokenForm(request.POST or None, owner=person)
    if request.method == "POST" and form.is_valid():
        wanted = form.cleaned_data
        days = wanted["days"]
        try:
            with transaction.atomic():
                token, secret = ApiToken.issue(
                    user=person,
                    name=wanted["name"],
                    scopes=wanted["scopes"],
                    mailboxes=list(wanted["mailboxes"]),
                    lifetime=timedelta(days=int(days)) if days else None,
                )
                record_event(
                    "token_created",
                    person=person,
                    mailboxes=wanted["mailboxes"],
                    token=str(token.pk),
                    scopes=token.scopes,
                )
        except IntegrityError:
            form.add_error(
                "name",
                _("A token of yours has or had this name. Rotate it, or choose another name."),
            )
        else:
            return _show_once(request, token, secret)
    return render(request, "accounts/token_new.html", {"form": form})


@signed_in_action
@sensitive_variables("secret")
def rotate(request: AuthenticatedRequest, token_id: UUID) -> HttpResponse:
    """Replace a token's secret and keep its name: the old secret ends now, idempotency keys and
    waiting actions stay.
    """
    token = _get_own_token(request, token_id)
    if token.client_id is not None:
        raise Http404  # a connected program has no secret that a person could hold
    with transaction.atomic():
        secret = token.rotate()
        record_event(
            "token_rotated", person=token.user, mailboxes=token.mailboxes.all(), token=str(token.pk)
        )
    return _show_once(request, token, secret)


@signed_in_form
def narrow(request: AuthenticatedRequest, token_id: UUID) -> HttpResponse:
    """Take rights or mailboxes away from a program. This needs no fresh sign-in, because it only
    removes access.
    """
    token = _get_own_token(request, token_id)
    form = AccessForm(
        request.POST or None,
        offered=[scope for scope in SCOPES if scope in token.scopes],
        mailboxes=token.mailboxes.all(),
        initial={"scopes": token.scopes, "mailboxes": token.mailboxes.all()},
    )
    if request.method == "POST" and form.is_valid():
        grants.narrow(token, **form.cleaned_data)
        messages.success(request, _("Saved. %(name)s can do only this now.") % {"name": token.name})
        return redirect("tokens")
    return render(request, "accounts/token_narrow.html", {"form": form, "token": token})


@signed_in_action
def revoke(request: AuthenticatedRequest, token_id: UUID) -> HttpResponse:
    """End a token at once. This needs no fresh sign-in, because it only removes access."""
    token = _get_own_token(request, token_id)
    grants.revoke(token)
    messages.success(
        request,
        _("%(name)s is revoked. Its approved mail that has not left yet needs a new approval.")
        % {"name": token.name},
    )
    return redirect("tokens")


@signed_in_page
def requests(request: AuthenticatedRequest) -> HttpResponse:
    """List the newest requests of the person's tokens. The query holds the filters."""
    person = request.user
    asked = {
        name: request.GET.get(name, "").strip()
        for name in ("token", "tool", "outcome", "request_id", "replayed")
    }
    tokens = dict(ApiToken.objects.filter(user=person).values_list("name", "pk"))
    chosen = [key for name, key in tokens.items() if asked["token"] in ("", name)]
    newest = first_rows(
        RequestRecord.objects.all(), keys={"token": chosen}, order=("-id",), take=SEARCHED
    )
    records = RequestRecord.objects.filter(token__in=chosen).select_related("token")
    if len(newest) == SEARCHED:
        records = records.filter(pk__gte=newest[-1][0])
    for name in ("tool", "outcome", "request_id"):
        if asked[name]:
            records = records.filter(**{name: asked[name]})
    if asked["replayed"] in ("yes", "no"):
        records = records.filter(replayed=asked["replayed"] == "yes")
    page = Paginator(records, PAGE).get_page(request.GET.get("page"))
    context = {
        "page": page,
        "asked": asked,
        "filtered": any(asked.values()),
        "query": "&".join(
            f"{name}={value}"
            for name, value in asked.items()
            if value.isascii() and value.isprintable()
        ),
        "names": sorted(tokens),
        "searched": SEARCHED if len(newest) == SEARCHED else None,
    }
    return render(request, "accounts/requests.html", context)


def _get_own_token(request: AuthenticatedRequest, token_id: UUID) -> ApiToken:
    return get_object_or_404(ApiToken, user=request.user, pk=token_id, revoked_at=None)


def _show_once(request: AuthenticatedRequest, token: ApiToken, secret: str) -> HttpResponse:
    return render(request, "accounts/token_secret.html", {"token": token, "secret": secret})
