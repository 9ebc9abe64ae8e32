"""10,000 waiting actions and 500 approvers: what a sweep of notifications costs."""

import time
import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models import Max
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from accounts.models import Mailbox, Membership, Role, User
from approvals.models import AuditChain, AuditEvent, Notification, PendingAction, Reminder
from approvals.outbound.notifications import gather, reminders
from approvals.worker import maintenance

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.long]
MAILBOXES, PEOPLE, ACTIONS = 100, 500, 10_000


@pytest.fixture
def many(settings: Any) -> None:
    """Make 500 approvers of 100 mailboxes, five of each, and 10,000 actions that wait."""
    settings.SENDS_MAIL = True
    settings.MAILHUB_NOTIFICATION_WAIT_SECONDS = 3600  # nothing is delivered here
    now = timezone.now()
    people = User.objects.bulk_create(
        User(email=f"p{n}@lovelace.example", address_proven_at=now) for n in range(PEOPLE)
    )
    mailboxes = Mailbox.objects.bulk_create(
        Mailbox(address=f"box{n}@lovelace.example", provider="memory", credentials=b"")
        for n in range(MAILBOXES)
    )
    Membership.objects.bulk_create(
        Membership(mailbox=mailboxes[n % MAILBOXES], user=person, role=Role.APPROVER)
        for n, person in enumerate(people)
    )
    add_actions(mailboxes, people[0], ACTIONS)


def add_actions(mailboxes: list[Mailbox], proposer: User, amount: int) -> None:
    now = timezone.now()
    chains = set(AuditChain.objects.values_list("pk", flat=True))
    actions = PendingAction.objects.bulk_create(
        PendingAction(
            kind="mail.send",
            tool="send_email",
            mailbox=mailboxes[n % len(mailboxes)],
            proposer=proposer,
            digest="0" * 64,
            message_id=f"<{uuid.uuid4().hex}@lovelace.example>",
            fingerprint="0" * 64,
            created_at=now,
            expires_at=now + timedelta(days=1),
        )
        for n in range(amount)
    )
    newest = AuditEvent.objects.values_list("chain").annotate(last=Max("sequence"))
    lengths: dict[Any, int] = dict(newest.order_by())
    events = []
    for action in actions:
        number = lengths[action.mailbox_id] = lengths.get(action.mailbox_id, 0) + 1
        events.append(
            AuditEvent(
                chain_id=action.mailbox_id,
                mailbox_id=action.mailbox_id,
                sequence=number,
                at=now,
                event="created",
                action_id=action.pk,
                actor="command",
                previous=uuid.uuid4().hex,
                hash=uuid.uuid4().hex,
            )
        )
    AuditChain.objects.bulk_create(
        AuditChain(id=pk, mailbox_id=pk) for pk in lengths if pk not in chains
    )
    AuditEvent.objects.bulk_create(events)


def measure(call: Callable[[], int]) -> tuple[float, int]:
    """Call until there is nothing left; return the dearest call in CPU seconds, and the calls."""
    dearest, calls, found = 0.0, 0, 1
    while found:
        begins = time.process_time()
        found = call()
        dearest, calls = max(dearest, time.process_time() - begins), calls + 1
    return dearest, calls


def count_statements(call: Callable[[], object]) -> int:
    """Return the number of statements, several INSERTs of rows into one table counted once."""
    with CaptureQueriesContext(connection) as queries:
        call()
    kinds = [query["sql"].split("VALUES")[0] for query in queries]
    inserts = {text for text in kinds if text.startswith("INSERT")}
    return len([text for text in kinds if not text.startswith("INSERT")]) + len(inserts)


def test_sweep_costs_less_than_a_second(many: None) -> None:
    now = timezone.now()
    gathered, rounds = measure(lambda: gather.gather(now))
    assert Notification.objects.count() == ACTIONS * PEOPLE // MAILBOXES
    half = now + timedelta(hours=12, minutes=1)
    reminded, _ = measure(lambda: reminders.remind(half))
    assert Notification.objects.count() == 2 * ACTIONS * PEOPLE // MAILBOXES
    gather.gather(now + timedelta(hours=1))
    maintenance.sweep()
    begins = time.process_time()
    maintenance.sweep()
    idle = time.process_time() - begins
    print(  # noqa: T201
        f"\n{connection.vendor}: gather {gathered:.3f} s of CPU at most ({rounds} rounds),"
        f" remind {reminded:.3f} s, a sweep without news {idle:.3f} s"
    )
    assert max(gathered, reminded, idle) < 1.0


def test_number_of_statements_does_not_grow(many: None) -> None:
    now = timezone.now()
    measure(lambda: gather.gather(now))
    mailboxes = list(Mailbox.objects.all())
    person = User.objects.earliest("pk")
    counts = []
    for amount in (1, 200):
        add_actions(mailboxes, person, amount)
        counts.append(count_statements(lambda: gather.gather(now)))
    assert counts[0] == counts[1] <= 30
    assert Reminder.objects.count() == 2 * (ACTIONS + 201)
