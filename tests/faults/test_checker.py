"""The checker itself: it finds nothing in a correct run, and each broken promise by its name."""

import hashlib
from dataclasses import replace
from email.message import EmailMessage

import pytest

from tests.faults.checker import STRANGER, refused_by
from tests.faults.content import content_of, content_of_payload
from tests.faults.correct_run import IN_DOUBT, PAYLOAD, RULED, WELL, World, at, sealed
from tests.faults.facts import Event, Traces
from tests.faults.test_mutations import MOMENTS, MUTATIONS, WITHOUT_FENCE
from tests.mutants.places import find
from tests.support.processes.programs import PROJECT

pytestmark = pytest.mark.static
ALTERED = {**PAYLOAD, "to": [STRANGER], "cc": [], "bcc": []}
REVOKED = Event(action="a", event="noticed", at=at(0.5), code="token_revoked")


@pytest.mark.parametrize(
    "world",
    [
        pytest.param(WELL, id="sent and said so"),
        pytest.param(
            WELL.state("unknown", verdict="unknown"), id="sent, and it says that it does not know"
        ),
        pytest.param(
            WELL.state("unknown", verdict="unknown").but(ledger=()), id="not sent, and not known"
        ),
        pytest.param(WELL.state("failed", verdict="refused").but(ledger=()), id="refused"),
        pytest.param(WELL.state("rejected").but(ledger=(), attempts=()), id="rejected"),
        pytest.param(WELL.sent_again("person"), id="sent again by a person's order"),
        pytest.param(WELL.called(1), id="the call that sends came in once"),
        pytest.param(
            WELL.sent_again("person").called(2), id="it came in once for each of two attempts"
        ),
        pytest.param(
            WELL.entry(sha256="", content=content_of_payload(PAYLOAD)),
            id="sent by a provider that writes the bytes",
        ),
        pytest.param(WELL.two_needed(1, 2), id="two people"),
        pytest.param(
            WELL.decision(approval_round=2).but(
                events=(Event(action="a", event="undone", at=at(0.5)),)
            ),
            id="approved again after an undo",
        ),
        pytest.param(
            WELL.state("succeeded", evidence="person").but(ledger=()), id="sent by a person's word"
        ),
        pytest.param(WELL.restored().returned(), id="restored, and given back with a warning"),
        pytest.param(
            WELL.restored().returned().approved_anew(15).left(16),
            id="restored, approved again, and sent again",
        ),
        pytest.param(
            WELL.restored().but(
                action=replace(WELL.action, status="rejected"),
                events=(Event(action="a", event="rejected", at=at(11)),),
            ),
            id="restored, and rejected before mailhub had looked",
        ),
        pytest.param(
            WELL.state("unknown", verdict="unknown")
            .but(ledger=())
            .restored()
            .returned()
            .but(ledger=WELL.entry(at=at(10.1)).ledger),
            id="carried out by the provider right after the restore",
        ),
        pytest.param(
            IN_DOUBT.restored(attempts=IN_DOUBT.attempts).proven_unsent().left(16),
            id="in doubt in the copy, then proven unsent, and tried again",
        ),
        pytest.param(
            WELL.sent_again("person").ruled(replace(RULED, taken=None)),
            id="a ruling without an answer",
        ),
        pytest.param(WELL.ruled(replace(RULED, taken=False)), id="a ruling that was refused"),
        pytest.param(
            IN_DOUBT.state(
                "cancelled", verdict="not_sent", evidence="person", ruled_at=at(5)
            ).ruled(replace(RULED, ruling="withdrawn")),
            id="withdrawn by a person who does not know whether it was sent",
        ),
        pytest.param(
            WELL.member((0, "member_removed", ""), (0.5, "joined", "approver")),
            id="removed and back before",
        ),
        pytest.param(
            WELL.member((0.5, "role_changed", "manager")), id="an approver who became a manager"
        ),
        pytest.param(WELL.member((3, "left", "")), id="left after it was sent"),
        pytest.param(WELL.withdrawn(0.4, 0.6), id="approved after the token was revoked"),
        pytest.param(WELL.withdrawn(1.4, 1.7), id="claimed while the token was revoked"),
        pytest.param(WELL.withdrawn(1.2, 1.4, "other"), id="another token was revoked"),
        pytest.param(WELL.journaled(a=1), id="in the send journal"),
        pytest.param(
            WELL.second_revision().but(events=(REVOKED,)),
            id="approved after the news about its token",
        ),
    ],
)
def test_kept_promise_has_no_findings(world: World) -> None:
    assert world.found() == []


@pytest.mark.parametrize(
    ("world", "invariant", "name"),
    [
        pytest.param(WELL.entry(message_id="<2>"), 1, "sent_without_action", id="what nobody knows of"),
        pytest.param(WELL.entry(sha256="6" * 64), 1, "other_bytes_than_stored", id="other bytes"),
        pytest.param(WELL.entry(recipients=("mira@y",)), 1, "other_bytes_than_stored", id="a recipient left out"),
        pytest.param(
            WELL.entry(recipients=(STRANGER,)).decision(digest=sealed(ALTERED)).but(
                revision=replace(WELL.revision, payload=ALTERED, digest=sealed(ALTERED))
            ),
            1, "other_bytes_than_stored", id="a stranger whom a revision took over",
        ),
        pytest.param(WELL.entry(sender="eve@x"), 1, "other_bytes_than_stored", id="another sender"),
        pytest.param(
            WELL.but(revision=replace(WELL.revision, digest="0" * 64)),
            1, "other_bytes_than_stored", id="a payload that its digest does not fit",
        ),
        pytest.param(WELL.but(decisions=()), 1, "sent_without_approval", id="nobody approved"),
        pytest.param(WELL.decision(at=at(3)), 1, "sent_without_approval", id="approved after it was sent"),
        pytest.param(WELL.decision(digest="0" * 64), 1, "sent_without_approval", id="approved something else"),
        pytest.param(WELL.decision(revision=2), 1, "sent_without_approval", id="approved another revision"),
        pytest.param(WELL.decision(verdict="rejected"), 1, "sent_without_approval", id="a no is no yes"),
        pytest.param(
            WELL.but(events=(Event(action="a", event="undone", at=at(1.5)),)),
            1, "sent_without_approval", id="the approval was taken back",
        ),
        pytest.param(
            WELL.but(events=(Event(action="a", event="returned", at=at(1.5)),)),
            1, "sent_without_approval", id="it had been sent back to a person",
        ),
        pytest.param(
            WELL.but(events=(REVOKED,)), 1, "sent_without_approval", id="approved on a page without the news",
        ),
        pytest.param(
            WELL.second_revision().but(events=(replace(REVOKED, at=at(1.5)),)),
            1, "sent_without_approval", id="approved before the news",
        ),
        pytest.param(
            WELL.second_revision().but(events=(replace(REVOKED, code="may_have_been_sent"),)),
            1, "sent_without_approval", id="approved in the round before a restore",
        ),
        pytest.param(WELL.two_needed(1), 1, "sent_without_approval", id="one of two"),
        pytest.param(WELL.two_needed(1, 1), 1, "sent_without_approval", id="one person twice"),
        pytest.param(WELL.two_needed(1, 3), 1, "sent_without_approval", id="the proposer as one of two"),
        pytest.param(WELL.member((0.5, "left", "")), 1, "approved_by_no_member", id="approved after leaving"),
        pytest.param(
            WELL.member((0.5, "role_changed", "viewer")), 1, "approved_by_no_member", id="approved by a viewer"
        ),
        pytest.param(
            WELL.member((1.2, "member_removed", "")), 1, "approved_by_no_member", id="removed before it was claimed"
        ),
        pytest.param(
            WELL.member((1.2, "member_removed", ""), (1.4, "joined", "approver")),
            1, "approved_by_no_member", id="removed and back before it was claimed",
        ),
        pytest.param(
            WELL.withdrawn(1.2, 1.4, "token"), 1, "sent_after_withdrawal", id="the token was revoked before the claim"
        ),
        pytest.param(
            WELL.withdrawn(1.2, 1.4, "mailbox"), 1, "sent_after_withdrawal", id="another account before the claim"
        ),
        pytest.param(
            WELL.but(attempts=(replace(WELL.attempts[0], is_early=True),)),
            1, "sent_early", id="sent while its approval could be undone",
        ),
        pytest.param(WELL.journaled(b=1), 3, "sent_and_not_journaled", id="not in the send journal"),
        pytest.param(
            WELL.but(events=(Event(action="a", event="expired", at=at(1)),)), 4, "expired", id="ended by a clock"
        ),
        pytest.param(WELL.but(ledger=WELL.ledger * 2), 2, "sent_twice", id="twice"),
        pytest.param(WELL.sent_again("lease_expired"), 2, "sent_twice", id="again, by no person's order"),
        pytest.param(
            WELL.sent_again("person").but(ledger=WELL.ledger * 2), 2, "sent_twice", id="again, before it was ordered"
        ),
        pytest.param(
            WELL.sent_again("person").but(ledger=(*WELL.sent_again("person").ledger, *WELL.entry(at=at(9)).ledger)),
            2, "sent_twice", id="one more than a person ordered",
        ),
        pytest.param(
            WELL.state("cancelled", verdict="not_sent", evidence="probe", ruled_at=at(1)),
            3, "was_sent_and_not_said", id="ruled once, and called unsent although it was sent",
        ),
        pytest.param(
            WELL.entry(sha256="", content=content_of_payload(PAYLOAD | {"text": "Hello!\n"})),
            1, "other_bytes_than_stored", id="another text, at a provider that writes the bytes",
        ),
        pytest.param(WELL.called(2), 2, "called_again", id="the call that sends came in twice for one attempt"),
        pytest.param(WELL.called(1, "<2>"), 2, "called_without_action", id="a call for what nobody knows of"),
        pytest.param(
            WELL.sent_again("person").but(
                ledger=WELL.ledger,
                attempts=(replace(WELL.attempts[0], verdict="unknown"), replace(WELL.attempts[0], fence=2)),
            ),
            2, "tried_again", id="tried again though the first may have sent",
        ),
        pytest.param(WELL.but(ledger=()), 3, "said_sent_and_was_not", id="said to be sent"),
        pytest.param(
            WELL.state("failed", verdict="refused"), 3, "was_sent_and_not_said", id="said to have failed, and was sent"
        ),
        pytest.param(WELL.state("cancelled"), 3, "was_sent_and_not_said", id="cancelled, and was sent"),
        pytest.param(
            WELL.state("unknown", verdict="unknown", phase="prepared"),
            3, "unknown_before_the_wire", id="unknown, though nothing can have been sent",
        ),
        pytest.param(
            WELL.restored().returned().left(11.5), 1, "sent_without_approval", id="restored, and sent again by itself"
        ),
        pytest.param(WELL.restored().left(10.1), 2, "sent_twice", id="restored, and sent again at once"),
        pytest.param(
            WELL.but(ledger=()).restored().left(11),
            1, "sent_without_approval", id="restored, and sent by an approval of the copy",
        ),
        pytest.param(
            IN_DOUBT.restored().left(16),
            1, "sent_without_approval", id="in doubt before the restore, forgotten, and tried again",
        ),
        pytest.param(
            WELL.restored().but(decisions=(replace(WELL.decisions[0], at=at(10.5)),)).left(11),
            2, "sent_twice", id="restored, and approved again without a warning",
        ),
        pytest.param(
            WELL.restored().returned().approved_anew(15).left(16).but(
                ledger=(*WELL.ledger, *WELL.entry(at=at(16)).ledger, *WELL.entry(at=at(17)).ledger)
            ),
            2, "sent_twice", id="restored, and sent once more than approved",
        ),
        pytest.param(
            WELL.restored(action=replace(WELL.action, status="rejected")),
            3, "was_sent_and_not_said", id="restored, and nobody is told that it was sent",
        ),
        pytest.param(
            WELL.restored().returned().approved_anew(15).left(16).called(3),
            2, "called_again", id="restored, and one call more than attempts",
        ),
        pytest.param(WELL.sent_again("person").ruled(), 2, "ruled_by_nobody", id="sent again, and nobody ruled"),
        pytest.param(
            WELL.sent_again("person").ruled(replace(RULED, ruling="withdrawn")),
            2, "ruled_by_nobody", id="sent again although it was withdrawn",
        ),
        pytest.param(
            WELL.sent_again("person").ruled(replace(RULED, taken=False)),
            2, "ruled_by_nobody", id="sent again by a ruling that was refused",
        ),
        pytest.param(
            WELL.sent_again("person").ruled(RULED, replace(RULED, fence=2)),
            2, "ruling_of_another_attempt", id="a ruling from a stale page was taken",
        ),
        pytest.param(
            WELL.state("unknown", verdict="unknown").ruled(replace(RULED, ruling="sent")),
            2, "ruling_of_another_attempt", id="a ruling that was taken and forgotten",
        ),
        pytest.param(WELL.state("approved").but(ledger=()), 4, "stuck", id="still approved"),
        pytest.param(WELL.state("executing", verdict=None).but(ledger=()), 4, "stuck", id="still executing"),
        pytest.param(WELL.but(traces=Traces(audit=("chain 1 event 4 altered",))), 5, "audit", id="the audit chain"),
        pytest.param(
            WELL.but(traces=Traces(texts={"metrics": 'x{to="canary-to"} 1'}, canaries=("canary",))),
            5, "canary", id="a canary in a metric label",
        ),
        pytest.param(
            WELL.but(traces=Traces(refusals=("ERROR:  action_fence: …",))), 6, "database_refused", id="a guard"
        ),
    ],
)  # fmt: skip
def test_broken_promise_is_named(world: World, invariant: int, name: str) -> None:
    assert (invariant, name) in world.found()


REFUSED = (
    'ERROR:  new row for relation "x" violates check constraint "action_succeeded_has_receipt"'
)


@pytest.mark.parametrize(
    ("line", "counts"),
    [
        (
            "2026-05-04 [7] ERROR:  action_fence: a claim, and nothing else, moves the fence by one",
            True,
        ),
        (REFUSED, True),
        ('ERROR:  duplicate key value violates unique constraint "audit_no_fork"', True),
        (
            'ERROR:  duplicate key value violates unique constraint "action_one_leaving_a_mailbox"',
            False,
        ),
        ('ERROR:  duplicate key value violates unique constraint "idempotency_key_once"', False),
        ("ERROR:  deadlock detected", False),
        ("LOG:  database system is ready", False),
        (
            '1811 abort at 40 in [UPDATE "approvals_pendingaction" SET "status" = ?, "fence" = ?',
            True,
        ),
        ('275 abort at 12 in [UPDATE "approvals_pendingaction" SET "status" = ?', True),
        ('2067 abort at 31 in [INSERT INTO "approvals_auditevent" ("chain_id", "mailbox_id"', True),
        ("11 database corruption at line 71034 of [df5c253c0b]", True),
        ('2067 abort at 31 in [UPDATE "approvals_pendingaction" SET "status" = ?', False),
        ('2067 abort at 19 in [INSERT INTO "approvals_idempotencyrecord" ("mailbox_id"', False),
        ('1555 abort at 11 in [INSERT INTO "approvals_instance" ("id", "identity")', False),
        ("5 statement aborts at 5: [BEGIN IMMEDIATE] database is locked", False),
    ],
)
def test_database_log_names_refusals_of_its_guards(line: str, counts: bool) -> None:
    assert refused_by(f"LOG:  x\n{line}\n", {"action_fence"}) == ([line] if counts else [])


def test_sent_message_has_the_hash_of_its_payload() -> None:
    message = EmailMessage()
    message["Subject"] = "Hello"
    message.set_content("Hello.\n")
    message.add_attachment(b"%PDF-", "application", "pdf", filename="a.pdf")
    sealed_file = {"name": "a.pdf", "sha256": hashlib.sha256(b"%PDF-").hexdigest()}
    assert content_of(message) == content_of_payload(PAYLOAD | {"attachments": [sealed_file]})
    assert content_of(message) != content_of_payload(PAYLOAD)


def test_every_mutated_guard_exists_at_its_place() -> None:
    """Check only that each guard is where the mutation expects it; running the mutations takes
    minutes and belongs to the long run.
    """
    edits = [WITHOUT_FENCE, *(edit for mutation in MUTATIONS.values() for edit in mutation.edits)]
    edits += [moment.edit for moment in MOMENTS.values()]
    found = {(name, text): len(find((PROJECT / name).read_text(), text)) for name, text, _ in edits}
    assert {place: count for place, count in found.items() if count != 1} == {}
