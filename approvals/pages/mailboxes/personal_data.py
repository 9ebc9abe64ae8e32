"""The personal data of one address in the gate: of an account here, and of a correspondent.

Proofs stay: decisions, attempts and audit events name a person by the number of the account only.
Words and addresses go.
"""

import json
from collections.abc import Iterator
from typing import Any

from django.db import transaction

from accounts.infra.problems import Problem
from accounts.models import Mailbox, Membership, User
from approvals.audit import chain
from approvals.audit.log import actors_of
from approvals.core.states import FINAL
from approvals.gate.decide import erase_notes
from approvals.gate.load import ContentUnavailable, render_content
from approvals.gate.overdue import purge_one
from approvals.gate.watches import reports_of
from approvals.models import (
    ApprovalPolicy,
    AuditEvent,
    Comment,
    Decision,
    NotificationChannel,
    NotificationSettings,
    PendingAction,
    Presence,
    QueueOrder,
    Revision,
    SavedView,
    Seen,
    Watch,
)
from approvals.pages.mailboxes.members import remove_member

BORDERS = str.maketrans(dict.fromkeys('<>()[]"=,;:', " "))  # of an address in the words of a server
# Rows that only serve the person and prove nothing.
OWN_ROWS = (
    (NotificationChannel, "user"),
    (NotificationSettings, "user"),
    (SavedView, "person"),
    (QueueOrder, "person"),
    (Presence, "person"),
    (Seen, "person"),
)


def export_person(person: User) -> dict[str, Any]:
    """Return what the gate keeps of a person with an account."""
    decisions = Decision.objects.filter(person=person).order_by("pk")
    comments = Comment.objects.filter(person=person).order_by("pk")
    events = AuditEvent.objects.filter(actor__in=actors_of([person.pk])).order_by("pk")
    proposed = PendingAction.objects.filter(proposer=person)
    return {
        "decisions": [
            {
                "action": str(each.action_id),
                "at": each.created_at.isoformat(),
                "verdict": each.verdict,
                "signed_in_by": each.method,
                "note": each.note,
                "passage": each.passage,
            }
            for each in decisions.iterator()
        ],
        "comments": [
            {
                "action": str(each.action_id),
                "at": each.created_at.isoformat(),
                "text": each.text,
            }
            for each in comments.iterator()
        ],
        "proposed": [str(key) for key in proposed.values_list("pk", flat=True)],
        "notification_channels": list(
            NotificationChannel.objects.filter(user=person).values("kind", "label")
        ),
        "saved_views": list(SavedView.objects.filter(person=person).values("name", "query")),
        "events": [
            {"at": at.isoformat(), "event": event, "action": str(action or ""), "data": data}
            for at, event, action, data in events.values_list(
                "at", "event", "action_id", "data"
            ).iterator()
        ],
    }


def export_correspondent(address: str) -> list[dict[str, Any]]:
    """Return the mails to an address whose content is still here, with their text.

    A mail that an edit addressed to others is in it without its words, which may be about them.
    """
    return [
        {
            "action": str(action.pk),
            "mailbox": action.mailbox.address,
            "state": action.status,
            "proposed_at": action.created_at.isoformat(),
            "subject": action.current.preview.get("title", "") if is_to_it else "",
            "text": _text_of(action) if is_to_it else "",
        }
        for action in _find_mails_to(address)
        for is_to_it in [_is_to(address, action.current.preview.get("targets"))]
    ]


def find_lists(address: str) -> list[str]:
    """Return the mailboxes whose rules name the address: their managers change the lists."""
    rules = ApprovalPolicy.objects.select_related("mailbox")
    return sorted(
        each.mailbox.address
        for each in rules.iterator()
        if address in (entry.lower() for entry in (*each.allowed, *each.refused))
    )


def leave_mailboxes(person: User) -> None:
    """End all memberships of a person; approvals of mail that has not left no longer count.

    Raises `conflict` with the mailbox that nobody else manages, before anything is changed.
    """
    with transaction.atomic():
        held = Membership.objects.filter(user=person).values_list("mailbox", flat=True)
        for mailbox in Mailbox.objects.filter(pk__in=list(held)).order_by("pk"):
            try:
                remove_member(mailbox=mailbox, person=person, user_id=person.pk)
            except Problem as error:
                named = f"{mailbox.address}: {error.detail}"
                raise Problem(error.code, named) from None
        Membership.on_any_day.filter(user=person).delete()  # those that have not begun


@transaction.atomic
def erase_person(person: User) -> dict[str, int]:
    """Delete the words of a person; return what had to stay for now, by its name."""
    ended = PendingAction.objects.filter(status__in=FINAL).values("pk")
    notes_left = erase_notes(person)
    written = Comment.objects.filter(person=person)
    written.filter(action__in=ended).delete()
    for model, name in OWN_ROWS:
        model._default_manager.filter(**{name: person}).delete()
    return {
        "notes of decisions about mail that has not ended": notes_left,
        "comments on mail that has not ended": written.count(),
    }


def erase_correspondent(address: str) -> tuple[int, int]:
    """Delete the content of ended mails to an address; return how many, and how many have not ended.

    The audit of each says that its content was erased.
    """
    erased = left = 0
    for found in list(_find_mails_to(address)):
        with transaction.atomic():
            # Locked here: what another transaction holds is waited for, and not left out.
            action = PendingAction.objects.select_for_update(no_key=True).get(pk=found.pk)
            if not action.is_final or action.settle_at:  # its copy in Sent may be missing
                left += 1
                continue
            purge_one(action.pk)
            chain.record(
                mailbox=action.mailbox_id,
                event="content_erased",
                actor="command",
                action_id=action.pk,
            )
        erased += 1
    return erased, left


def export_responses(address: str) -> list[dict[str, str]]:
    """Return what is known of an address because it answered a mail, or a mail to it was returned."""
    return [
        {
            "action": str(watch.pk),
            "answered_at": watch.answered_at.isoformat()
            if has_answered and watch.answered_at
            else "",
            "reports": json.dumps([each for each in reports_of(watch) if _names(each, address)]),
        }
        for watch, has_answered in _find_responses(address)
    ]


def erase_responses(address: str) -> int:
    """Delete an address from answers and reports, and return of how many mails."""
    count = 0
    for found, _ in list(_find_responses(address)):
        with transaction.atomic():
            watch = Watch.objects.select_for_update(no_key=True).get(pk=found.pk)
            kept = [each for each in reports_of(watch) if not _names(each, address)]
            watch.reports = json.dumps(kept) if kept else ""
            if watch.answered_by.lower() == address:
                watch.answered_by = ""
            watch.save(update_fields=["reports", "answered_by"])
        count += 1
    return count


def _find_responses(address: str) -> Iterator[tuple[Watch, bool]]:
    """Yield the watches that name the address, and True if it has answered.

    All are read, because words at rest cannot be searched.
    """
    for watch in Watch.objects.exclude(answered_by="", reports="").iterator():
        has_answered = watch.answered_by.lower() == address
        if has_answered or any(_names(each, address) for each in reports_of(watch)):
            yield watch, has_answered


def _names(report: dict[str, Any], address: str) -> bool:
    words = " ".join(map(str, report.values())).lower().translate(BORDERS).split()
    return address in (word.strip(".'") for word in words)


def _find_mails_to(address: str) -> Iterator[PendingAction]:
    """Yield the actions that name the address as a recipient, in any of their revisions."""
    named = Revision.objects.filter(preview__icontains=address).order_by("pk")
    seen = set()
    for key, targets in named.values_list("action", "preview__targets").iterator():
        if key in seen or not _is_to(address, targets):
            continue
        seen.add(key)
        yield PendingAction.objects.select_related("mailbox").get(pk=key)


def _is_to(address: str, targets: Any) -> bool:
    return address in (each["address"].lower() for each in targets or ())


def _text_of(action: PendingAction) -> str:
    try:
        content = render_content(action)
    except ContentUnavailable:
        return ""
    return content.text if content else ""
