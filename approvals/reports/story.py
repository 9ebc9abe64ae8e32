"""The story of one action for an operator: states, reasons to wait, attempts and events, no content.

`manage.py explain` prints it, and a page shows it.
"""

from collections.abc import Iterator

from django.db.models import Q
from django.utils import translation

from approvals.audit.words import ACTION_WORDS
from approvals.core.states import Status
from approvals.gate.reconcile import may_have_left
from approvals.gate.rules import conditions
from approvals.models import AuditEvent, PendingAction

WAITS: dict[Status, str] = {
    Status.PENDING: "a person's decision",
    Status.EXECUTING: "the answer of the provider",
}


def tell_story(action: PendingAction) -> list[str]:
    """Return the lines, in English as the command and the log."""
    with translation.override("en"):
        return [*_state(action), *_attempts(action), *_events(action)]


def _state(action: PendingAction) -> Iterator[str]:
    yield f"{action.pk}  {action.kind} of {action.mailbox.address}"
    yield f"state       {action.status}, revision {action.revision}, round {action.approval_round}"
    for name in ("created_at", "not_before", "expires_at", "finished_at", "restored_at"):
        if at := getattr(action, name):
            yield f"{name:<11} {at:%Y-%m-%d %H:%M:%S %Z}"
    if action.error:
        yield f"error       {action.error.get('code', '')}"
    if at := may_have_left(action):
        yield f"It may have been sent at {at:%Y-%m-%d %H:%M:%S %Z}."
    for reason in _find_reasons(action):
        yield f"waits for   {reason}"


def _find_reasons(action: PendingAction) -> Iterator[str]:
    if action.status == Status.UNKNOWN:
        yield (
            f"the lookup at {action.next_probe_at:%H:%M:%S %Z}, or a person"
            if action.next_probe_at
            else "a person who looks: no lookup follows"
        )
    elif action.status in WAITS:
        yield WAITS[Status(action.status)]
    elif action.status == Status.APPROVED:
        mine = PendingAction.objects.filter(pk=action.pk)
        held = [reason for reason, holds in _conditions() if mine.filter(holds).exists()]
        yield from held or ["a worker that is free"]


def _conditions() -> list[tuple[str, Q]]:
    everything, of_mailbox = map(conditions.has_any, conditions.reasons_of_pauses())
    reconnect, rest, leaving, rules = map(conditions.has_any, conditions.reasons_to_wait())
    return [
        ("manage.py after_restore", Q(unreconciled=True)),
        ("the end of the pause of everything", everything),
        ("the end of the pause of its mailbox", of_mailbox),
        ("its time", ~conditions.due()),
        ("a person: its approval no longer counts", conditions.is_void()),
        ("its mailbox to be connected again", reconnect),
        ("the time that the provider asked for", rest),
        ("another mail of its mailbox that is leaving", leaving),
        ("the send window or the next day of its rules", rules),
    ]


def _attempts(action: PendingAction) -> Iterator[str]:
    for each in action.attempts.order_by("fence"):
        outcome = f"{each.verdict or 'no verdict yet'} {each.code}".rstrip()
        proof = f", proof {each.proof}" if each.proof else ""
        yield (
            f"attempt {each.fence}   {each.started_at:%Y-%m-%d %H:%M:%S} {each.phase},"
            f" {outcome}{proof}, worker {each.worker}"
        )


def _events(action: PendingAction) -> Iterator[str]:
    events = AuditEvent.objects.filter(action_id=action.pk).order_by("chain", "sequence")
    for each in events:
        data = " ".join(f"{name}={value}" for name, value in each.data.items() if value != "")
        word = ACTION_WORDS.get(each.event, each.event)
        yield f"{each.at:%Y-%m-%d %H:%M:%S} {each.actor:<10} {word} {data}".rstrip()
