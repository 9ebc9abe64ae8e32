"""The digest of a person: what waits, what was sent and what was refused, for each mailbox."""

from collections import Counter, defaultdict
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Count, Q, QuerySet
from django.db.models.functions import Now
from django.utils.translation import gettext as _

from accounts.infra.database import database_now
from accounts.infra.time_zones import get_zone
from accounts.models import Membership
from approvals.core.states import Status
from approvals.models import (
    ApprovalPolicy,
    Content,
    Notification,
    NotificationSettings,
    PendingAction,
)
from approvals.outbound.notifications import outbox
from approvals.outbound.notifications.fitness import next_digest
from approvals.outbound.notifications.outbox import Event

BATCH = 500
SPANS = {
    NotificationSettings.Digest.DAILY: timedelta(days=1),
    NotificationSettings.Digest.WEEKLY: timedelta(days=7),
}
COUNTED = ("waiting", "unknown", "sent", "refused")
REFUSED = (Status.REJECTED, Status.FAILED, Status.EXPIRED)


def find_due(now: datetime | Now) -> QuerySet[NotificationSettings]:
    return NotificationSettings.objects.filter(digest_due_at__lte=now)


def add_due(now: datetime | None = None) -> int:
    """Add the digests that are due, and set the next time of each; return their number."""
    now = now or database_now()
    with transaction.atomic():
        due = list(
            find_due(now)
            .select_for_update(no_key=True, skip_locked=True)
            .order_by("digest_due_at")[:BATCH]
        )
        outbox.add(
            [
                Event(
                    stage=Notification.Stage.DIGEST,
                    people=[person.pk],
                    occasion=now.date().isoformat(),
                )
                for person in due
            ],
            now=now,
        )
        for person in due:
            person.digest_due_at = next_digest(person, now)
        NotificationSettings.objects.bulk_update(due, ["digest_due_at"])
    return len(due)


def summarize(person: NotificationSettings, due: datetime, *, content: Content) -> tuple[str, ...]:
    """Return a line for each of the person's mailboxes with something to say, since the digest before
    the one that was `due`.

    Mailboxes that a notification may not name, by the channel or by their rules, have one line
    together, without their addresses.
    """
    # By the person's clock: days in which the clocks change have 23 or 25 hours.
    local = due.astimezone(get_zone(person.time_zone))
    since = local - SPANS.get(NotificationSettings.Digest(person.digest), timedelta(days=1))
    mine = Membership.objects.filter(user=person.pk)
    caps = dict(
        ApprovalPolicy.objects.filter(mailbox__in=mine.values("mailbox")).values_list(
            "mailbox", "notify_content"
        )
    )
    addresses = {
        mailbox: address
        if Content.least(content, caps.get(mailbox, Content.PREVIEW)) != Content.LINK
        else ""
        for mailbox, address in mine.values_list("mailbox", "mailbox__address")
    }
    tallies: dict[str, Counter[str]] = defaultdict(Counter)
    for mailbox, *counts in (
        PendingAction.objects.filter(
            Q(status__in=(Status.PENDING, Status.UNKNOWN)) | Q(finished_at__gte=since),
            mailbox__in=addresses,
        )
        .order_by()
        .values("mailbox")
        .annotate(
            waiting=Count("pk", filter=Q(status=Status.PENDING)),
            unknown=Count("pk", filter=Q(status=Status.UNKNOWN)),
            sent=Count("pk", filter=Q(status=Status.SUCCEEDED)),
            refused=Count("pk", filter=Q(status__in=REFUSED)),
        )
        .values_list("mailbox", *COUNTED)
    ):
        tallies[addresses[mailbox]].update(dict(zip(COUNTED, counts, strict=True)))
    lines = []
    for address, tally in tallies.items():
        values = {**tally, "mailbox": address or _("Mailboxes")}
        line = (
            _(
                "%(mailbox)s: %(waiting)s waiting, %(sent)s sent, %(refused)s rejected, failed or expired"
            )
            % values
        )
        if tally["unknown"]:
            line += ", " + _("%(unknown)s of unknown outcome") % values
        lines.append(line)
    return tuple(sorted(lines))
