"""The webhooks of a person's tokens: the list, the deliveries, and sending one again."""

from typing import cast
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from accounts.access.auth import caller_of_session
from accounts.infra.problems import Problem
from accounts.models import ApiToken, User
from approvals.lifecycle.queries import beyond, cursor_of
from approvals.models import Webhook
from approvals.webhooks.events import EVENTS
from approvals.webhooks.forms import WebhookForm
from approvals.webhooks.subscriptions import SCOPE, add_webhook, deliver_again, remove_webhook

PAGE = 50


def _able(owner: User) -> list[UUID]:
    """Return the person's tokens that may have webhooks.

    Scopes are a list, which not every database can search.
    """
    tokens = ApiToken.objects.filter(user=owner, revoked_at=None)
    return [token.pk for token in tokens if SCOPE in token.scopes and not token.is_expired]


@login_required
@never_cache
@require_safe
def index(request: HttpRequest) -> HttpResponse:
    person = cast(User, request.user)
    mine = Webhook.objects.filter(token__user=person).select_related("token")
    context = {"webhooks": mine, "able": bool(_able(person)), "all": len(EVENTS)}
    return render(request, "approvals/webhooks.html", context)


@login_required
@never_cache
@sensitive_variables("secret")
@require_http_methods(["GET", "HEAD", "POST"])
def create(request: HttpRequest) -> HttpResponse:
    """Add a webhook; only the answer to this POST shows the secret of its signatures."""
    person = cast(User, request.user)
    form = WebhookForm(request.POST or None, able=_able(person), staff=person.is_staff)
    if request.method == "POST" and form.is_valid():
        wanted = form.cleaned_data
        try:
            webhook, secret = add_webhook(
                caller_of_session(request),
                wanted["token"],
                url=wanted["url"],
                events=wanted["events"],
            )
        except Problem as problem:
            form.add_error("url", problem.errors[0].message if problem.errors else problem.detail)
        else:
            return render(
                request, "approvals/webhook_secret.html", {"webhook": webhook, "secret": secret}
            )
    return render(request, "approvals/webhook_new.html", {"form": form})


@login_required
@never_cache
@require_safe
def page(request: HttpRequest, webhook_id: UUID) -> HttpResponse:
    """Show the deliveries of a webhook, newest first."""
    webhook = _mine(request, webhook_id)
    cursor = request.GET.get("cursor")
    try:
        further = beyond(cursor, newest_first=True, by="at")
    except Problem:
        raise Http404 from None
    rows = list(webhook.deliveries.filter(further).order_by("-at", "-id")[: PAGE + 1])
    older = cursor_of(rows[PAGE - 1].at, rows[PAGE - 1].pk) if len(rows) > PAGE else None
    context = {"webhook": webhook, "deliveries": rows[:PAGE], "older": older, "cursor": cursor}
    return render(request, "approvals/webhook.html", context)


@login_required
@require_POST
def remove(request: HttpRequest, webhook_id: UUID) -> HttpResponse:
    remove_webhook(caller_of_session(request), _mine(request, webhook_id))
    messages.success(request, _("It gets no more messages."))
    return redirect("webhooks")


@login_required
@require_POST
def again(request: HttpRequest, webhook_id: UUID, delivery_id: UUID) -> HttpResponse:
    webhook = _mine(request, webhook_id)
    try:
        deliver_again(webhook, delivery_id)
    except Problem:
        raise Http404 from None
    messages.success(request, _("It is sent again within seconds."))
    return redirect("webhook", webhook.pk)


def _mine(request: HttpRequest, webhook_id: UUID) -> Webhook:
    mine = (
        Webhook.objects.filter(token__user=cast(User, request.user), pk=webhook_id)
        .select_related("token")
        .first()
    )
    if mine is None:
        raise Http404
    return mine
