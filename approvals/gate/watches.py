"""Answers to an action that was sent, and reports about its recipients."""

import json
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Case, Exists, OuterRef, Q, Value, When
from django.db.models.functions import Coalesce, Least, Now

from accounts.connect.connecting import account_of
from accounts.infra.foreign_text import load_json
from accounts.models import Mailbox
from approvals.audit import chain
from approvals.core.types import FollowUp, Response
from approvals.models import Attempt, PendingAction, Watch, WatchedMailbox

WATCHED = timedelta(days=30)
# The shortest time between two looks into a mailbox, and before the first one.
SHORTEST_WAIT = timedelta(minutes=1)
# In the place of a Message-ID: Sent does not show the mail, so it may have left under any.
UNSHOWN = "unshown"
# The provider's clock may be behind ours, and the index of its search too.
OVERLAP = timedelta(minutes=10)
PUT_OFF, MOST_TRIES = timedelta(hours=1), 6  # of a follow-up
MOST_REPORTS = 50  # of one sort that are kept of an action, besides those about its recipients


def begin(action: PendingAction, wish: FollowUp | None) -> None:
    """Begin to look for answers and reports; repeated calls change nothing.

    What came since the first attempt counts: days later somebody may have found that it was sent.
    """
    tried = action.attempts.filter(wire_started_at__isnull=False)
    times = [at for at in tried.values_list("wire_started_at", flat=True) if at is not None]
    assert action.finished_at is not None, "it has succeeded"
    at = max(times, default=action.finished_at)
    watch = Watch(action=action, mailbox_id=action.mailbox_id, began_at=at, ends_at=at + WATCHED)
    if wish is not None:
        watch.follow_up_at, watch.note = at + timedelta(days=wish.after_days), wish.note
    Watch.objects.bulk_create([watch], ignore_conflicts=True)
    since = min(times, default=action.created_at) - OVERLAP
    first = Now() + SHORTEST_WAIT
    if not WatchedMailbox.objects.filter(pk=action.mailbox_id).update(
        # Nothing was looked at while nothing was watched.
        seen_until=Case(When(look_at=None, then=Value(since)), default=Least("seen_until", since)),
        look_at=Least(Coalesce("look_at", first), first),
    ):
        place = WatchedMailbox(mailbox_id=action.mailbox_id, seen_until=since, look_at=first)
        WatchedMailbox.objects.bulk_create([place], ignore_conflicts=True)


def watch_of(action: PendingAction) -> Watch | None:
    """Return the watch of this action, or None without one."""
    if action.first_event is not None:
        return None
    try:
        return action.watch
    except Watch.DoesNotExist:
        return None


def note_answer(action: PendingAction, *, at: datetime, by: str) -> None:
    """Store the answer that withdrew an action, which nothing is looked for any more."""
    watch = Watch(action=action, mailbox_id=action.mailbox_id, began_at=at)
    watch.answered_at, watch.answered_by = at, by
    watch.save(force_insert=True)


@transaction.atomic
def name(watch: Watch, message_id: str) -> None:
    """Store the Message-ID under which Sent shows the mail, "" if it is not known yet, or UNSHOWN.

    If it is not ours, what names it may have come before, so the next look reads that again.
    """
    Watch.objects.filter(pk=watch.pk).update(message_id=message_id[:255])
    if message_id not in ("", UNSHOWN, watch.action.message_id):
        since = watch.began_at - OVERLAP
        place = WatchedMailbox.objects.filter(pk=watch.mailbox_id)
        place.update(seen_until=Least("seen_until", since))


def put_off(watch: Watch, *, now: datetime) -> bool:
    """Put a follow-up off that could not look; return False after the last try.

    It is due whole days after the send, so the hours beyond them are the tries.
    """
    assert watch.follow_up_at is not None, "it is due"
    if (watch.follow_up_at - watch.began_at) % timedelta(days=1) >= MOST_TRIES * PUT_OFF:
        return False
    later = watch.follow_up_at + PUT_OFF
    Watch.objects.filter(pk=watch.pk, follow_up_at=watch.follow_up_at).update(follow_up_at=later)
    return True


def is_of_account(mailbox: Mailbox) -> Q:
    """Return the condition of watches whose mail left through the account that is connected now.

    As for one attempt (`accounts.connect.connecting.is_of_account`), an unknown account fits.
    """
    left = Attempt.objects.filter(action=OuterRef("action"), verdict=Attempt.Verdict.ACCEPTED)
    now = account_of(mailbox)
    return Q(Exists(left.filter(account__in=("", now)) if now else left))


def find_named(mailbox: Mailbox, response: Response) -> list[UUID]:
    """Return the actions of the mailbox that a response is about, as long as they are watched."""
    named = Q(message_id__in=response.names) | Q(action__message_id__in=response.names)
    watched = Watch.objects.filter(
        named,
        is_of_account(mailbox),
        mailbox=mailbox,
        ends_at__isnull=False,
    )
    return list(watched.values_list("pk", flat=True))


@transaction.atomic
def record(action_id: UUID, response: Response, *, now: datetime) -> None:
    """Store a response to an action; one that is stored already changes nothing.

    If the content of the action is deleted, only the time of an answer is stored.
    """
    watch = Watch.objects.select_for_update(no_key=True).get(pk=action_id)
    at = response.at or now
    purged = watch.action.purged_at is not None
    if response.sort == "answer":
        if watch.answered_at is None:
            by = "" if purged else response.by
            watch.answered_at, watch.answered_by, watch.follow_up_at = at, by, None
            watch.save(update_fields=["answered_at", "answered_by", "follow_up_at"])
        return
    if purged:
        return
    found = reports_of(watch)
    known = {(each["sort"], each["address"].lower()) for each in found}
    new = [
        report
        for report in _write_reports(watch.action, response, at)
        if (report["sort"], report["address"].lower()) not in known
    ]
    # Anybody can send such mail in any number, but only about so many recipients.
    recipients = {address.lower() for address in _recipients_of(watch.action)}
    others = [each for each in found if each["address"].lower() not in recipients]
    room = MOST_REPORTS - sum(each["sort"] == response.sort for each in others)
    strange = [each for each in new if each["address"].lower() not in recipients]
    new = [each for each in new if each not in strange[max(room, 0) :]]
    if not new:
        return
    watch.reports = json.dumps([*found, *new])
    watch.save(update_fields=["reports"])
    if response.sort == "returned":
        chain.record(
            mailbox=watch.mailbox_id,
            event="bounced",
            actor="worker",
            action_id=action_id,
            count=len(new),
        )


@transaction.atomic
def record_silence(action_id: UUID, *, now: datetime, code: str = "") -> None:
    """Record that no answer was found until the time of the follow-up, once.

    `code` says why one may be there all the same.
    """
    mine = Watch.objects.filter(
        pk=action_id, answered_at=None, follow_up_at__lte=now, unanswered_at=None
    )
    if mine.update(unanswered_at=now, follow_up_at=None):
        action = PendingAction.objects.get(pk=action_id)
        data: dict[str, Any] = {"code": code} if code else {}
        chain.record(
            mailbox=action.mailbox_id,
            event="unanswered",
            actor="worker",
            action_id=action_id,
            **data,
        )


def _recipients_of(action: PendingAction) -> list[str]:
    return [each["address"] for each in action.current.preview.get("targets") or ()]


def _write_reports(action: PendingAction, response: Response, at: datetime) -> list[dict[str, Any]]:
    """Return the reports to store; an address is written as in the envelope if it is there."""
    said = {"sort": response.sort, "at": at.isoformat().replace("+00:00", "Z")}
    if response.sort == "automatic":
        return [{**said, "address": response.by}]
    recipients = _recipients_of(action)
    known = {address.lower(): address for address in recipients}
    only = recipients[0] if len(recipients) == 1 else ""
    rows = {
        known.get(each.address.lower()) or only or each.address: each for each in response.failures
    }
    return [
        {**said, "address": address, "status": each.status, "reason": each.reason}
        for address, each in rows.items()
    ]


def reports_of(watch: Watch) -> list[dict[str, Any]]:
    """Return the reports, the oldest first; empty if no key opens them."""
    try:
        return list(load_json(watch.reports or "[]"))
    except ValueError:
        return []


def describe(watch: Watch | None, *, reads: bool, own: bool = True) -> dict[str, Any]:
    """Return the contract's members about answers and reports.

    Addresses and words of mails are for a caller who `reads` mail, the note for the proposer.
    """
    if watch is None:
        return {}
    reports: dict[str, list[dict[str, Any]]] = {"returned": [], "automatic": []}
    for each in reports_of(watch):
        shown = each if reads else {"at": each["at"]}
        row = {name: value for name, value in shown.items() if value and name != "sort"}
        reports[each["sort"]].append(row)
    members = {
        "answered_at": watch.answered_at,
        "answered_by": watch.answered_by if reads else "",
        "bounced": reports["returned"],
        "auto_replies": reports["automatic"],
        "unanswered_at": watch.unanswered_at,
        "follow_up_at": watch.follow_up_at,
        "follow_up_note": watch.note if own else "",
    }
    return {name: value for name, value in members.items() if value}
