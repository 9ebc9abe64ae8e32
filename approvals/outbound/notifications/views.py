"""The page of a person's notifications: channels, hours, and what was sent to them and why."""

from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _

from accounts.access.signed_in import (
    AuthenticatedRequest,
    signed_in_action,
    signed_in_form,
)
from accounts.infra.foreign_text import parse_number
from accounts.infra.problems import Problem
from accounts.infra.time_zones import COOKIE, get_zone
from accounts.models import User
from approvals.core.cursors import after_cursor, write_cursor
from approvals.models import (
    Content,
    Notification,
    NotificationChannel,
    NotificationSettings,
)
from approvals.outbound.notifications.channel_tests import send_test
from approvals.outbound.notifications.channels.adding import known_browsers
from approvals.outbound.notifications.channels.web_push import public_key
from approvals.outbound.notifications.fitness import next_digest, next_open
from approvals.outbound.notifications.forms import ContentForm, WhenForm
from approvals.outbound.notifications.messages import describe_code, describe_stage
from approvals.outbound.notifications.outbox import offer_email

PAGE = 30


@signed_in_form
def index(request: AuthenticatedRequest) -> HttpResponse:
    """Show the page; a POST changes the days, the hours and the digest."""
    person, now = _settings_of(request), timezone.now()
    opens = next_open(person, now)  # before the form changes the settings
    form = WhenForm(request.POST or None, instance=person)
    if request.method == "POST" and form.is_valid():
        changed = form.save(commit=False)
        changed.digest_due_at = next_digest(changed, now)
        changed.save()
        # Notifications that wait for the end of the quiet hours are judged again by the new hours.
        Notification.objects.filter(
            user=request.user, state=Notification.State.WAITING, due_at=opens
        ).update(due_at=now)
        messages.success(request, _("Saved."))
        return redirect("notifications")
    return _render(request, form)


def _settings_of(request: AuthenticatedRequest) -> NotificationSettings:
    """Return the person's settings; the first visit makes them, in the zone of the browser."""
    zone = request.COOKIES.get(COOKIE, "")
    known = str(get_zone(zone)) == zone
    offer_email([request.user.pk])
    person, _new = NotificationSettings.objects.get_or_create(user=request.user)
    if known and person.time_zone == "UTC" and zone != "UTC" and request.method == "GET":
        person.time_zone = zone
    return person


def _render(request: AuthenticatedRequest, form: WhenForm) -> HttpResponse:
    person = request.user
    channels = NotificationChannel.objects.filter(user=person)
    cursor = request.GET.get("cursor")
    try:
        further = after_cursor(cursor, parse=parse_number)
    except Problem:
        raise Http404 from None
    mine = Notification.objects.filter(further, user=person)
    rows = list(mine.select_related("channel", "action")[: PAGE + 1])
    context = {
        "form": form,
        "channels": [
            {
                "row": channel,
                "form": ContentForm(
                    kind=channel.kind,
                    initial={"content": channel.content},
                    auto_id=f"id_%s_{channel.pk.hex}",
                ),
                "problem": describe_code(channel.pause_code),
            }
            for channel in channels
        ],
        "has_email": any(each.kind == NotificationChannel.Kind.EMAIL for each in channels),
        "rows": [
            {
                "row": row,
                "why": describe_stage(row.stage, row.action),
                "state": Notification.State(row.state).label,
                "code": describe_code(row.code),
            }
            for row in rows[:PAGE]
        ],
        "older": write_cursor(rows[PAGE - 1].created_at, str(rows[PAGE - 1].pk))
        if len(rows) > PAGE
        else None,
        "cursor": cursor,
        "key": public_key(),  # with which a browser subscribes
        "known": known_browsers(person),
    }
    return render(request, "approvals/notifications.html", context)


@signed_in_action
def add_email(request: AuthenticatedRequest) -> HttpResponse:
    """Turn e-mail on again, for an address that the person has proven."""
    person: User = request.user
    if person.address_proven_at is None:
        messages.error(request, _("Sign in once by a mailed code first. It proves your address."))
        return redirect("notifications")
    NotificationSettings.objects.update_or_create(user=person, defaults={"email_offered": True})
    NotificationChannel.objects.get_or_create(
        user=person,
        kind=NotificationChannel.Kind.EMAIL,
        defaults={"content": Content.SUBJECT},
    )
    messages.success(request, _("E-mail is on."))
    return redirect("notifications")


@signed_in_action
def change_channel(request: AuthenticatedRequest, channel_id: UUID) -> HttpResponse:
    """Change how much a channel shows."""
    channel = _get_own(request, channel_id)
    form = ContentForm(request.POST, kind=channel.kind)
    if not form.is_valid():
        raise Http404
    NotificationChannel.objects.filter(pk=channel.pk).update(content=form.cleaned_data["content"])
    messages.success(request, _("Saved."))
    return redirect("notifications")


@signed_in_action
def test_channel(request: AuthenticatedRequest, channel_id: UUID) -> HttpResponse:
    """Send a test, and show what the receiver answered."""
    channel = _get_own(request, channel_id)
    try:
        answer = send_test(channel)
    except Problem as problem:
        messages.error(request, problem.detail)
        return redirect("notifications")
    said = f" {answer.detail[:300]}" if answer.detail else ""
    if answer.result == "taken":
        messages.success(request, _("The test was taken. Look whether it arrived.") + said)
    else:
        messages.error(request, _("The test failed.") + f" {describe_code(answer.code)}{said}")
    return redirect("notifications")


@signed_in_action
def resume_channel(request: AuthenticatedRequest, channel_id: UUID) -> HttpResponse:
    channel = _get_own(request, channel_id)
    NotificationChannel.objects.filter(pk=channel.pk).update(
        paused_at=None, pause_code="", failures=0
    )
    messages.success(request, _("The channel is on again. New events are sent to it."))
    return redirect("notifications")


@signed_in_action
def remove_channel(request: AuthenticatedRequest, channel_id: UUID) -> HttpResponse:
    _get_own(request, channel_id).delete()
    messages.success(request, _("Channel removed."))
    return redirect("notifications")


def _get_own(request: AuthenticatedRequest, channel_id: UUID) -> NotificationChannel:
    return get_object_or_404(
        NotificationChannel.objects.select_related("user"), user=request.user, pk=channel_id
    )
