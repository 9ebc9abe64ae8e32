"""The audit page of a person who manages thousands of mailboxes."""

from uuid import uuid4

import pytest
from django.utils import timezone

from accounts.models import Mailbox, Membership, Role, User
from approvals.models import AuditChain, AuditEvent
from tests.conftest import Reviewer

pytestmark = [pytest.mark.django_db, pytest.mark.long]
MANY = 10_000


def test_audit_page_of_ten_thousand_mailboxes(alice: User) -> None:
    boxes = Mailbox.objects.bulk_create(
        (Mailbox(address=f"box{n}@scale.example", provider="memory") for n in range(MANY)),
        batch_size=1000,
    )
    Membership.objects.bulk_create(
        (Membership(mailbox=box, user=alice, role=Role.MANAGER) for box in boxes), batch_size=1000
    )
    AuditChain.objects.bulk_create(
        (AuditChain(pk=box.pk, mailbox=box) for box in boxes), batch_size=1000
    )
    AuditEvent.objects.bulk_create(
        (
            AuditEvent(
                chain_id=box.pk,
                mailbox=box,
                sequence=1,
                at=timezone.now(),
                event="paused",
                actor="command",
                previous=uuid4().hex,
                hash="",
            )
            for box in boxes
        ),
        batch_size=1000,
    )
    window = Reviewer.signed_in(alice).client
    first = window.get("/audit/")
    assert first.status_code == 200
    logged = first.context["logged"]
    assert {row.mailbox_id for row in logged.rows} <= {box.pk for box in boxes[-len(logged.rows) :]}
    following = window.get("/audit/", {"cursor": logged.next_cursor, "event": "paused"})
    assert (following.status_code, len(following.context["logged"].rows)) == (200, len(logged.rows))
