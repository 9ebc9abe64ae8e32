"""Pages for tokens of programs: create, show once, rotate and revoke them, and list requests."""

from datetime import timedelta
from typing import Any, cast
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.paginator import Paginator
from django.db import IntegrityError, transaction
from django.db.models.functions import Now
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from accounts.audit_hook import record_event
from accounts.forms import TokenForm
from accounts.models import SCOPES, ApiToken, RequestRecord, User

PAGE = 50


@login_required
@never_cache
@require_safe
def index(request: HttpRequest) -> HttpResponse:
    mine = ApiToken.objects.filter(user=cast(User, request.user)).prefetch_related("mailboxes")
    rows: list[dict[str, Any]] = [
        {"token": token, "scopes": [SCOPES.get(scope, scope) for scope in token.scopes]}
        for token in mine.filter(revoked_at=None).order_by("created_at")
    ]
    revoked = mine.exclude(revoked_at=None).order_by("-revoked_at")[:PAGE]
    sandbox = (
        any(row["token"].name == "sandbox" for row in rows)
        and settings.MAILHUB_ALLOW_LOOPBACK_HOSTS
    )
    return render(
        request, "accounts/tokens.html", {"rows": rows, "revoked": revoked, "sandbox": sandbox}
    )


@login_required
@never_cache
@sensitive_variables("secret")
@require_http_methods(["GET", "HEAD", "POST"])
def create(request: HttpRequest) -> HttpResponse:
    """Make a token; only the answer to this POST shows its secret."""
    person = cast(User, request.user)
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
                _("You have a token of that name already. Rotate it, or choose another name."),
            )
        else:
            return _shown_once(request, token, secret)
    return render(request, "accounts/token_new.html", {"form": form})


@login_required
@require_POST
@sensitive_variables("secret")
def rotate(request: HttpRequest, token_id: UUID) -> HttpResponse:
    """Replace a token's secret and keep its name: the old secret ends now, idempotency keys and
    waiting actions stay.
    """
    token = _mine(request, token_id)
    with transaction.atomic():
        secret = token.rotate()
        record_event(
            "token_rotated", person=token.user, mailboxes=token.mailboxes.all(), token=str(token.pk)
        )
    return _shown_once(request, token, secret)


@login_required
@require_POST
def revoke(request: HttpRequest, token_id: UUID) -> HttpResponse:
    """End a token at once. This needs no fresh sign-in, because it only removes access."""
    token = _mine(request, token_id)
    with transaction.atomic():
        ApiToken.objects.filter(pk=token.pk).update(revoked_at=Now())
        record_event(
            "token_revoked", person=token.user, mailboxes=token.mailboxes.all(), token=str(token.pk)
        )
    messages.success(
        request,
        _(
            "%(name)s is revoked. Mail that it proposed and that is approved already comes back to be decided again."
        )
        % {"name": token.name},
    )
    return redirect("tokens")


@login_required
@never_cache
@require_safe
def requests(request: HttpRequest) -> HttpResponse:
    """List the requests of the person's tokens, the newest first. The query holds the filters."""
    person = cast(User, request.user)
    records = RequestRecord.objects.filter(token__user=person).select_related("token")
    asked = {
        name: request.GET.get(name, "").strip()
        for name in ("token", "tool", "outcome", "request_id", "replayed")
    }
    if asked["token"]:
        records = records.filter(token__name=asked["token"])
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
        "names": sorted(set(ApiToken.objects.filter(user=person).values_list("name", flat=True))),
    }
    return render(request, "accounts/requests.html", context)


def _mine(request: HttpRequest, token_id: UUID) -> ApiToken:
    token = ApiToken.objects.filter(
        user=cast(User, request.user), pk=token_id, revoked_at=None
    ).first()
    if token is None:
        raise Http404
    return token


def _shown_once(request: HttpRequest, token: ApiToken, secret: str) -> HttpResponse:
    context = {
        "token": token,
        "secret": secret,
        "url": settings.MAILHUB_PUBLIC_URL,
        "mailbox": token.mailboxes.first(),
        "may_propose": "mail:propose" in token.scopes,
    }
    return render(request, "accounts/token_secret.html", context)
