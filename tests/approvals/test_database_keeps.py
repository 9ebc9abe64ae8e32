"""The database itself keeps payloads, decisions, attempts and the audit as they were written."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.utils import timezone

from accounts.models import Mailbox, User
from approvals.audit import chain
from approvals.gate import decide, overdue
from approvals.models import (
    Attempt,
    AuditChain,
    AuditEvent,
    Blob,
    Decision,
    PendingAction,
    Revision,
)
from tests.approvals.conftest import approve
from tests.approvals.guarded import claimed, only, pending, refused, sql, succeeded
from tests.conftest import Api

__all__ = ["pending"]
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]


@pytest.mark.fault(18)
def test_payload_never_changes_after_its_proposal(
    approved: Callable[..., PendingAction], alice: User
) -> None:
    action = approved()
    revision = Revision.objects.get()
    changed = {**revision.payload, "to": ["eve@evil.example"]}

    assert refused(lambda: Revision.objects.update(payload=changed)) == "revision_final"
    assert refused(lambda: Revision.objects.update(preview={})) == "revision_final"
    assert refused(lambda: Revision.objects.update(sealed_payload=None)) == "revision_final"
    assert refused(lambda: Revision.objects.update(sealed_preview=None)) == "revision_final"
    assert refused(lambda: Revision.objects.update(sealed_payload=b"{}")) == "revision_final"
    assert refused(lambda: Revision.objects.update(sealed_preview=b"{}")) == "revision_final"
    assert refused(lambda: Revision.objects.update(digest="0" * 64)) == "revision_final"
    assert refused(lambda: Revision.objects.update(number=2)) == "revision_final"
    empty = "UPDATE approvals_revision SET sealed_payload = NULL WHERE action_id = %s"
    assert refused(sql(empty, action)) == "revision_final"
    assert (
        refused(sql("DELETE FROM approvals_revision WHERE action_id = %s", action))
        == "revision_never_deleted"
    )
    assert refused(lambda: Blob.objects.update(content=b"else")) == "blob_never_changed"
    assert refused(lambda: Blob.objects.all().delete()) == "blob_deleted_after_the_end"
    assert (
        refused(lambda: Blob.objects.create(action=action, sha256="1" * 64, content=b""))
        == "blob_of_pending"
    )
    new = {
        "payload": changed,
        "preview": {},
        "digest": "1" * 64,
        "author": alice,
        "created_at": timezone.now(),
    }
    assert (
        refused(lambda: Revision.objects.create(action=action, number=2, **new))
        == "revision_of_pending"
    )
    assert refused(only(action, digest="1" * 64, revision=2)) == "action_payload_frozen"
    assert refused(only(action, digest="1" * 64)) == "action_payload_frozen"


@pytest.mark.fault(18)
def test_decisions_are_append_only(approved: Callable[..., PendingAction], bob: User) -> None:
    action = approved()

    assert refused(lambda: Decision.objects.update(person=bob)) == "decision_final"
    assert refused(lambda: Decision.objects.update(verdict="rejected")) == "decision_final"
    assert refused(lambda: Decision.objects.update(note="I never said that")) == "decision_final"
    assert refused(lambda: Decision.objects.all().delete()) == "decision_never_deleted"
    assert (
        refused(sql("DELETE FROM approvals_decision WHERE action_id = %s", action))
        == "decision_never_deleted"
    )
    statement = "UPDATE approvals_decision SET digest = 'x' WHERE action_id = %s"
    assert refused(sql(statement, action)) == "decision_final"


@pytest.mark.fault(18)
def test_attempt_only_advances_and_its_verdict_is_final(
    approved: Callable[..., PendingAction],
) -> None:
    action = approved()
    now = timezone.now()
    new = {"action": action, "worker": "x", "started_at": now}
    assert refused(lambda: Attempt.objects.create(**new, fence=1)) == "attempt_of_a_claim"
    succeeded(action)

    assert refused(lambda: Attempt.objects.update(verdict="not_sent")) in (
        "attempt_verdict_final",
        "attempt_unsent_is_proven",
    )
    assert refused(lambda: Attempt.objects.update(verdict="unknown")) == "attempt_verdict_final"
    assert refused(lambda: Attempt.objects.update(phase="prepared")) in (
        "attempt_forward",
        "attempt_verdict_final",
    )
    assert refused(lambda: Attempt.objects.update(fence=2)) in (
        "attempt_forward",
        "attempt_verdict_final",
    )
    assert refused(lambda: Attempt.objects.all().delete()) == "attempt_never_deleted"
    assert refused(lambda: Attempt.objects.create(**new, fence=2)) == "attempt_of_a_claim"


@pytest.mark.fault(18)
def test_ended_action_stays_as_it_ended(approved: Callable[..., PendingAction]) -> None:
    action = succeeded(approved())

    assert refused(only(action, receipt={"at": "never"})) == "action_receipt_final"
    assert refused(only(action, status="pending", receipt=None)) in (
        "action_transition",
        "action_receipt_final",
    )
    assert (
        refused(sql("DELETE FROM approvals_pendingaction WHERE id = %s", action))
        == "action_never_deleted"
    )
    assert refused(lambda: Revision.objects.update(payload={"to": []})) == "revision_final"


@pytest.mark.fault(18)
def test_audit_is_append_only(approved: Callable[..., PendingAction], mailbox: Mailbox) -> None:
    action = approved()

    assert refused(lambda: AuditEvent.objects.update(actor="user:0")) == "auditevent_never_changed"
    assert refused(lambda: AuditEvent.objects.all().delete()) == "auditevent_never_deleted"
    statement = "DELETE FROM approvals_auditevent WHERE action_id = %s"
    assert refused(sql(statement, action)) == "auditevent_never_deleted"
    assert refused(lambda: AuditChain.objects.update(length=1)) == "auditchain_grows"
    assert refused(lambda: AuditChain.objects.update(head="0" * 64)) == "auditchain_grows"
    assert (
        refused(lambda: sql("DELETE FROM approvals_auditchain", action)())
        == "auditchain_never_deleted"
    )
    last = AuditEvent.objects.order_by("sequence").last()
    assert last is not None
    fork = AuditEvent(
        chain=last.chain,
        mailbox=mailbox,
        sequence=last.sequence + 1,
        at=timezone.now(),
        event="forked",
        actor="x",
        previous=last.previous,
        hash="1" * 64,
    )
    assert refused(fork.save)
    chain.record(mailbox=mailbox, event="goes_on", actor="test")


def test_purge_empties_only_ended_actions(
    approved: Callable[..., PendingAction], api: Api, bob: User
) -> None:
    action = succeeded(approved())
    rejected = decide.reject(
        action_id=PendingAction.objects.get(pk=api.propose()).pk, person=bob, note="Not so."
    )
    still_open = api.propose()
    PendingAction.objects.update(finished_at=timezone.now() - timedelta(days=400))

    overdue.purge()

    assert set(
        Revision.objects.filter(payload={}, preview={}).values_list("action", flat=True)
    ) == {
        action.pk,
        rejected.pk,
    }
    assert {str(blob.action_id) for blob in Blob.objects.all()} == {still_open}
    assert not Decision.objects.exclude(note="").exists()


def test_named_parts_of_an_order_never_change(pending: PendingAction, alice: User) -> None:
    action = claimed(approve(pending.pk, alice))
    attempts = Attempt.objects.filter(action=action)
    attempts.update(phase="wire_started", wire_started_at=timezone.now(), notes={"draft": "1"})
    assert refused(lambda: attempts.update(notes={"draft": "2"})) == "attempt_forward"
