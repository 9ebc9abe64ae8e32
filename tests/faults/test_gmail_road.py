"""The whole send path on a Gmail mailbox: the state, the ledger and Gmail's Sent agree."""

import re
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import pytest
from django.db import connection
from django.utils import timezone

from approvals.gate import overdue
from approvals.gate.execute import execute
from approvals.models import Attempt, Blob, Heartbeat, PendingAction, Rest
from approvals.worker import maintenance
from tests.conftest import Api, Reviewer
from tests.faults.gmail_road import (
    CHARLES,
    HIDDEN,
    MIRA,
    Plan,
    approve,
    approved,
    drafts,
    drop,
    fail,
    look_again,
    naming,
    now_it_is_time,
    state,
)
from tests.support.people.gmail import ADA, gmail, letter, mailbox
from tests.support.processes.programs import WorkerProcess, this_test, until
from tests.support.servers.gmail import GmailServer
from tests.support.servers.gmail_data import Call, parsed
from tests.support.work import work

__all__ = ["approved", "gmail", "mailbox", "naming"]
pytestmark = pytest.mark.django_db(transaction=True)
LONG = pytest.mark.long  # test_gmail_answers.py has every code of an answer


def test_approved_mail_leaves_once_and_is_in_sent(
    api: Api, approved: PendingAction, gmail: GmailServer
) -> None:
    work()
    work()
    assert state(api, approved) == ("succeeded", None)
    (sent,) = gmail.ledger
    assert (sent.sender, sent.recipients) == (ADA, (MIRA, CHARLES, HIDDEN))
    assert sent.message_id == approved.message_id
    assert HIDDEN.encode() not in sent.content
    front, approved_bytes, rest = sent.content.partition(bytes(Blob.objects.get().content))
    assert re.fullmatch(rb"X-Mailhub-Mark: [0-9a-f]{32}\r\nDate: [^\r\n]+\r\n", front)
    assert (bool(approved_bytes), rest) == (True, b"")
    shown = api.get(f"/actions/{approved.pk}").json()["receipt"]
    assert (shown["recipient_count"], shown["provider"]) == (3, "gmail")
    assert len(gmail.sources(ADA, "SENT")) == 1
    assert (drafts(gmail), gmail.count("drafts.send")) == ([], 1)


def test_forward_to_oneself_arrives_with_its_attachments(
    api: Api, reviewer: Reviewer, gmail: GmailServer
) -> None:
    message = parsed(letter("Report"))
    message.add_attachment(b"%PDF-", "application", "pdf", filename="Größe.pdf")
    original = gmail.deliver(ADA, message.as_bytes())
    answer = api.tool("forward_email", message_id=original.id, to=[ADA], confirm=True).json()
    reviewer.decide(answer["action"]["id"], "approve")
    work()
    assert gmail.ledger[0].recipients == (ADA,)
    (copy,) = (source for source in gmail.sources(ADA, "INBOX") if b"Fwd" in source)
    (attached,) = parsed(copy).iter_attachments()
    assert (attached.get_filename(), attached.get_content()) == ("Größe.pdf", b"%PDF-")


def test_draft_of_the_owner_is_sent_and_no_longer_a_draft(
    api: Api, reviewer: Reviewer, gmail: GmailServer
) -> None:
    draft = api.tool("create_draft", to=[MIRA], subject="Mine", body="Words.").json()
    answer = api.tool("send_draft", draft_id=draft["id"], confirm=True).json()
    reviewer.decide(answer["action"]["id"], "approve")
    work()
    assert [parsed(sent.content)["Subject"] for sent in gmail.ledger] == ["Mine"]
    assert drafts(gmail) == []


@pytest.mark.parametrize("confirm", [True, pytest.param(False, marks=LONG)])
def test_mail_without_a_copy_in_sent_cannot_be_approved(
    api: Api, gmail: GmailServer, confirm: bool
) -> None:
    answer = api.tool(
        "send_email",
        to=[MIRA],
        subject="Hello",
        body="Hi.",
        save_to_sent_items=False,
        confirm=confirm,
    )
    assert answer.status_code == 422
    assert answer.json()["code"] == "invalid_input"
    assert [error["field"] for error in answer.json()["errors"]] == ["save_to_sent_items"]
    assert not PendingAction.objects.exists()


# Lost answers


@pytest.mark.fault(30, 31)
@pytest.mark.usefixtures("naming")
@pytest.mark.parametrize(
    "plan",
    [
        pytest.param(drop("drafts.send", after=True), id="reset-after-the-effect"),
        pytest.param(fail("drafts.send", 503, after=True), id="503-though-it-went-out"),
        pytest.param(fail("drafts.send", 504, after=True), id="504-though-it-went-out", marks=LONG),
        pytest.param(fail("drafts.send", 302, after=True), id="redirect", marks=LONG),
    ],
)
def test_lost_answer_is_found_in_sent_and_not_repeated(
    api: Api, approved: PendingAction, gmail: GmailServer, plan: Plan
) -> None:
    plan(gmail)
    work()
    assert state(api, approved)[0] == "unknown"
    assert gmail.count("drafts.send") == 1

    look_again()
    assert state(api, approved) == ("succeeded", None)
    look_again()
    assert (len(gmail.ledger), gmail.count("drafts.send"), len(gmail.sources(ADA, "SENT"))) == (
        1,
        1,
        1,
    )
    assert Attempt.objects.get().evidence == "probe"


@pytest.mark.fault(30, 31)
@pytest.mark.parametrize(
    "plan",
    [
        pytest.param(drop("drafts.send"), id="reset-before-the-effect"),
        pytest.param(fail("drafts.send", 503), id="503-and-it-did-not-go-out", marks=LONG),
    ],
)
def test_draft_seen_unsent_twice_is_deleted_and_made_again(
    api: Api, approved: PendingAction, gmail: GmailServer, plan: Plan
) -> None:
    plan(gmail)
    work()
    assert (state(api, approved)[0], gmail.count("drafts.send")) == ("unknown", 1)
    now_it_is_time()
    maintenance.reconcile()
    assert (state(api, approved)[0], gmail.count("drafts.send")) == ("unknown", 1)
    now_it_is_time()
    maintenance.reconcile()
    assert (state(api, approved), drafts(gmail)) == (("approved", "draft_destroyed"), [])

    look_again()
    assert state(api, approved) == ("succeeded", None)
    assert (len(gmail.ledger), gmail.count("drafts.create"), gmail.count("drafts.send")) == (
        1,
        2,
        2,
    )


@pytest.mark.fault(31)
@pytest.mark.parametrize("message_ids", ["replaced", "noted"])
def test_copy_renamed_by_gmail_is_found(
    api: Api, approved: PendingAction, gmail: GmailServer, message_ids: Literal["replaced", "noted"]
) -> None:
    gmail.message_ids = message_ids
    gmail.drop("drafts.send", after=True)
    work()
    look_again()
    assert state(api, approved) == ("succeeded", None)
    (copy,) = gmail.sources(ADA, "SENT")
    assert Attempt.objects.get().reference == str(parsed(copy)["Message-ID"]) != approved.message_id


# Answers after the timeout


@pytest.mark.fault(32)
def test_acceptance_with_retry_after_counts(
    api: Api, approved: PendingAction, gmail: GmailServer
) -> None:
    gmail.fail("drafts.send", 200, headers={"retry-after": "30"})
    work()
    look_again()
    assert state(api, approved) == ("succeeded", None)
    assert (len(gmail.ledger), gmail.count("drafts.send"), Rest.objects.count()) == (1, 1, 0)


@pytest.mark.fault(32)
def test_unreadable_acceptance_counts(
    api: Api, approved: PendingAction, gmail: GmailServer
) -> None:
    gmail.garbles.add("drafts.send")
    work()
    assert state(api, approved) == ("succeeded", None)
    look_again()
    assert (len(gmail.ledger), gmail.count("drafts.send")) == (1, 1)


# The worker dies


# test_graph_road.py kills on PostgreSQL.
ON_BOTH = [
    pytest.param("SQLite", marks=[pytest.mark.process, pytest.mark.sqlite_only]),
    pytest.param("PostgreSQL", marks=[pytest.mark.postgres_only, LONG]),
]


@pytest.mark.fault(23, 24)
@pytest.mark.parametrize("database", ON_BOTH)
@pytest.mark.parametrize("killed", ["before-the-effect", "after-the-effect"])
def test_draft_and_sent_decide_after_a_kill_during_the_send(
    api: Api,
    reviewer: Reviewer,
    gmail: GmailServer,
    tmp_path: Path,
    settings: Any,
    database: str,
    killed: str,
) -> None:
    settings.MAILHUB_HOME = tmp_path
    urls = {"GMAIL_BASE_URL": gmail.url, "GOOGLE_TOKEN_URI": gmail.token_uri}
    with ExitStack() as stack:
        worker = stack.enter_context(WorkerProcess(tmp_path, **urls, **this_test()))
        until(
            lambda: Heartbeat.objects.filter(worker__endswith=f":{worker.pid}").exists(),
            say=worker.log,
        )

        def kills(call: Call) -> None:
            worker.kill_9()

        gmail.before["drafts.send"] = kills
        gmail.drop("drafts.send", after=killed == "after-the-effect")
        action = approve(api, reviewer)
        until(lambda: gmail.count("drafts.send"), say=worker.log)
        until(lambda: worker.process is not None and worker.process.poll() is not None)
    del gmail.before["drafts.send"]
    PendingAction.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    overdue.end_dead_leases()
    assert state(api, action)[0] == "unknown"
    for _ in range(3):
        look_again()
    assert state(api, action) == ("succeeded", None)
    assert [sent.message_id for sent in gmail.ledger] == [action.message_id]
    assert gmail.count("drafts.send") == (1 if killed == "after-the-effect" else 2)


@pytest.mark.fault(27)
def test_unwritten_outcome_is_found_again(
    api: Api, approved: PendingAction, gmail: GmailServer, settings: Any
) -> None:
    """Fail the database right after the 200: the attempt stays open, and the lease ends."""

    def takes_the_lease(call: Call) -> None:
        # End the lease as the sweeper does for a worker that could not record the outcome.
        PendingAction.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
        overdue.end_dead_leases()
        connection.close()

    gmail.before["drafts.send"] = takes_the_lease
    gmail.drop("drafts.send", after=True)
    execute(approved.pk, worker="test")
    assert state(api, approved)[0] == "unknown"
    look_again()
    assert state(api, approved) == ("succeeded", None)
    assert (len(gmail.ledger), gmail.count("drafts.send")) == (1, 1)
