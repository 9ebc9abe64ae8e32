"""The history of one action, in order: decisions, edits, attempts and refusals."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from django.utils.text import get_text_list
from django.utils.timesince import timesince
from django.utils.translation import gettext, ngettext

from accounts.models import User
from approvals.audit.log import name_of, owner_id
from approvals.audit.words import words_of
from approvals.gate.find import rule_changes_of
from approvals.models import AuditEvent, PendingAction

# Events without a row of their own. Decisions, revisions and attempts show the others.
TOLD = (
    "undone", "cancelled", "returned", "expired", "superseded", "approval_refused", "rejection_refused", "edit_refused",
    "ask_back_refused", "ruling_refused", "late_outcome", "proven_unsent", "sent_differs", "approval_lost",
    "approvals_void", "escalated",
)  # fmt: skip


CONTENT = ("payload", "preview", "sealed_payload", "sealed_preview")


@dataclass(frozen=True, kw_only=True)
class Past:
    """One entry of the history; `what` is its row."""

    at: datetime
    sort: str
    what: Any
    who: str = ""
    title: str = ""


def load_history(action: PendingAction) -> list[Past]:
    """Return the history, oldest first. Names of people are looked up once for all."""
    revisions = list(action.revisions.select_related("author").defer(*CONTENT))
    found = [
        Past(
            at=after.created_at,
            sort="edited",
            what=after,
            who=str(after.author),
        )
        for before, after in pairwise(revisions)
        if after.digest != before.digest
    ]
    found += [
        Past(at=decision.created_at, sort="decision", what=decision, who=str(decision.person))
        for decision in action.decisions.select_related("person")
    ]
    found += [
        Past(at=attempt.started_at, sort="attempt", what=attempt, who=str(number))
        for number, attempt in enumerate(action.attempts.all(), start=1)
    ]
    found += [
        Past(at=change.at, sort="rules", what=change, who=change.by)
        for change in rule_changes_of(action)
    ]
    events = list(
        AuditEvent.objects.filter(action_id=action.pk, event__in=TOLD).order_by("at", "pk")
    )
    people = User.objects.in_bulk(
        {key for event in events if (key := owner_id(event.actor))}
        | {key for event in events for key in _people_of(event)}
    )
    for event in events:
        person = people.get(owner_id(event.actor) or 0)
        found.append(
            Past(
                at=event.at,
                sort="event",
                what=event,
                who=name_of(event.actor, str(person)) if person else "",
                title=_title_of(event, people),
            )
        )
    return sorted(found, key=lambda each: each.at)


def _people_of(event: AuditEvent) -> list[int]:
    """Return the people that an escalation notified. Any value may be stored there."""
    given = event.data.get("people") if isinstance(event.data, dict) else None
    return [key for key in given if isinstance(key, int)] if isinstance(given, list) else []


def _title_of(event: AuditEvent, people: Mapping[int, User]) -> str:
    if event.event == "late_outcome" and event.data.get("verdict") in ("refused", "not_sent"):
        return gettext("A late answer proves that this attempt did nothing")
    names = [str(people[key]) for key in _people_of(event) if key in people]
    minutes = event.data.get("minutes") if names else None
    if event.event != "escalated" or not isinstance(minutes, int):
        return words_of(event.event)
    return ngettext(
        "No decision for %(time)s: %(people)s was notified",
        "No decision for %(time)s: %(people)s were notified",
        len(names),
    ) % {
        "time": timesince(event.at - timedelta(minutes=minutes), event.at, depth=1),
        "people": get_text_list(names, gettext("and")),
    }
