"""The webhooks of a person's tokens: the list, the deliveries, and sending one again."""

from collections.abc import Sequence
from typing import Any, cast
from uuid import UUID

from django import forms
from django.contrib import messages
from django.db.models import Q
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.debug import sensitive_variables

from accounts.access.auth import caller_of_session
from accounts.access.roles import held_ids
from accounts.access.signed_in import (
    AuthenticatedRequest,
    signed_in_action,
    signed_in_form,
    signed_in_page,
)
from accounts.infra.problems import Problem
from accounts.models import ApiToken, User
from approvals.core.cursors import after_cursor, write_cursor
from approvals.models import Webhook
from approvals.outbound.webhooks.events import ALL, SECURITY
from approvals.outbound.webhooks.subscriptions import (
    SCOPE,
    add_webhook,
    deliver_again,
    remove_webhook,
)
from approvals.reports.steps import EVENTS

PAGE = 50


def _find_able_tokens(owner: User) -> list[UUID]:
    """Return the person's tokens that may have webhooks.

    Scopes are a list, which not every database can search.
    """
    tokens = ApiToken.objects.filter(user=owner, revoked_at=None)
    return [token.pk for token in tokens if SCOPE in token.scopes and not token.is_expired]


@signed_in_page
def index(request: AuthenticatedRequest) -> HttpResponse:
    person = request.user
    mine = Webhook.objects.filter(token__user=person).select_related("token")
    context = {"webhooks": mine, "able": bool(_find_able_tokens(person)), "all": ALL}
    return render(request, "approvals/webhooks.html", context)


@signed_in_form
@sensitive_variables("secret")
def create(request: AuthenticatedRequest) -> HttpResponse:
    """Add a webhook; only the answer to this POST shows the secret of its signatures."""
    person = request.user
    form = WebhookForm(request.POST or None, able=_find_able_tokens(person), staff=person.is_staff)
    if request.method == "POST" and form.is_valid():
        wanted = form.cleaned_data
        try:
            webhook, secret = add_webhook(
                caller_of_session(request),
                wanted["token"],
                url=wanted["url"],
                events=wanted["events"],
                callbacks=wanted["callbacks"],
            )
        except Problem as problem:
            form.add_error("url", problem.errors[0].message if problem.errors else problem.detail)
        else:
            return render(
                request, "approvals/webhook_secret.html", {"webhook": webhook, "secret": secret}
            )
    return render(request, "approvals/webhook_new.html", {"form": form})


@signed_in_page
def page(request: AuthenticatedRequest, webhook_id: UUID) -> HttpResponse:
    """Show the deliveries of a webhook about mailboxes that the person has, newest first."""
    webhook = _get_own_webhook(request, webhook_id)
    cursor = request.GET.get("cursor")
    try:
        further = after_cursor(cursor, by="at")
    except Problem:
        raise Http404 from None
    # They go on after the person has left a mailbox, although none is sent then.
    known = Q(action=None) | Q(action__mailbox__in=held_ids(request.user))
    rows = list(webhook.deliveries.filter(further, known).order_by("-at", "-id")[: PAGE + 1])
    older = write_cursor(rows[PAGE - 1].at, rows[PAGE - 1].pk.hex) if len(rows) > PAGE else None
    context = {"webhook": webhook, "deliveries": rows[:PAGE], "older": older, "cursor": cursor}
    return render(request, "approvals/webhook.html", context)


@signed_in_action
def remove(request: AuthenticatedRequest, webhook_id: UUID) -> HttpResponse:
    remove_webhook(caller_of_session(request), _get_own_webhook(request, webhook_id))
    messages.success(request, _("Webhook removed."))
    return redirect("webhooks")


@signed_in_action
def redeliver(request: AuthenticatedRequest, webhook_id: UUID, delivery_id: UUID) -> HttpResponse:
    webhook = _get_own_webhook(request, webhook_id)
    try:
        deliver_again(webhook, delivery_id)
    except Problem:
        raise Http404 from None
    messages.success(request, _("mailhub sends this delivery again within seconds."))
    return redirect("webhook", webhook.pk)


def _get_own_webhook(request: AuthenticatedRequest, webhook_id: UUID) -> Webhook:
    return get_object_or_404(
        Webhook.objects.select_related("token"), token__user=request.user, pk=webhook_id
    )


class WebhookForm(forms.Form):
    """A new webhook: its token, address and events.

    `able` holds the ids of the tokens that may have webhooks.
    """

    token = forms.ModelChoiceField(
        label=gettext_lazy("Token"), queryset=ApiToken.objects.none(), empty_label=None
    )
    url = forms.CharField(
        label=gettext_lazy("Address"),
        max_length=500,
        help_text=gettext_lazy("https, on port 443 or 8443"),
        required=False,
    )
    callbacks = forms.BooleanField(
        label=gettext_lazy("Instead: for the callback addresses that proposals of this token name"),
        required=False,
    )
    events = forms.MultipleChoiceField(
        label=gettext_lazy("Events"),
        widget=forms.CheckboxSelectMultiple,
        choices=[(name, name) for name in EVENTS],
        initial=list(EVENTS),
    )

    def __init__(
        self, *args: Any, able: Sequence[UUID], staff: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        if staff:
            cast(forms.MultipleChoiceField, self.fields["events"]).choices = [
                *((name, name) for name in EVENTS),
                (SECURITY, gettext_lazy("security events of all people")),
            ]
        self.fields["url"].widget.attrs |= {
            "placeholder": "https://",
            "inputmode": "url",
            "autocomplete": "off",
        }
        cast(forms.ModelChoiceField, self.fields["token"]).queryset = ApiToken.objects.filter(  # type: ignore[type-arg]
            pk__in=able
        )

    def clean(self) -> dict[str, Any]:
        given: dict[str, Any] = super().clean() or {}
        if bool(given.get("url")) == bool(given.get("callbacks")) and "url" not in self.errors:
            self.add_error("url", _("Write an address, or choose callbacks."))
        return given
