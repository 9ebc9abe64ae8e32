"""The whole send path on a Gmail mailbox: the state, the ledger and Gmail's Sent agree."""

import io
import json
import re
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any, Literal

import pytest
from django.db import connection
from django.utils import timezone

from accounts.infra import credentials
from accounts.infra.credentials import CannotDecrypt
from accounts.models import ApiToken, Mailbox, TokenRefresh, User
from approvals.lifecycle.backoff import PROBES
from approvals.models import Attempt, AuditEvent, Blob, Heartbeat, PendingAction, Preparation, Rest
from approvals.worker import maintenance
from approvals.worker.execution import execute
from tests.concurrently import all_at_once
from tests.conftest import Api, Reviewer, make_api
from tests.gmailbox import ADA, CLIENT, connected, gmail, letter
from tests.gmailserver import Call, GmailServer, parsed
from tests.processes import WorkerProcess, this_test, until
from tests.work import work

__all__ = ["gmail"]
pytestmark = pytest.mark.django_db(transaction=True)
Plan = Callable[[GmailServer], object]
MIRA, CHARLES, HIDDEN = "mira@northwind.example", "charles@lovelace.example", "hidden@copy.example"
COMPOSE = "https://www.googleapis.com/auth/gmail.compose"


@pytest.fixture
def mailbox(alice: User, gmail: GmailServer) -> Mailbox:
    return connected(gmail, alice)


@pytest.fixture
def api(alice: User, mailbox: Mailbox) -> Api:
    return make_api(alice, mailbox)


@pytest.fixture(params=["replaced", "noted", "kept"])
def naming(request: pytest.FixtureRequest, gmail: GmailServer) -> None:
    """Run the test with every treatment of the Message-ID, because Gmail decides about it."""
    gmail.message_ids = request.param


@pytest.fixture
def approved(api: Api, reviewer: Reviewer) -> PendingAction:
    """Return an action that a person has approved and no worker has claimed."""
    return approve(api, reviewer, to=[MIRA], cc=[CHARLES], bcc=[HIDDEN])


def approve(api: Api, reviewer: Reviewer, **changes: Any) -> PendingAction:
    action_id = api.propose(**changes)
    assert reviewer.decide(action_id, "approve").status_code == 302
    return PendingAction.objects.get(pk=action_id)


def state(api: Api, action: PendingAction) -> tuple[str, str | None]:
    """Return the state as the proposer sees it, and the code of its error."""
    told = api.get(f"/actions/{action.pk}").json()
    return told["state"], told.get("error", {}).get("code")


def now_it_is_time() -> None:
    """End all waiting times, by changing the rows."""
    past = timezone.now() - timedelta(seconds=1)
    Rest.objects.update(until=timezone.now() - timedelta(seconds=1))
    Preparation.objects.filter(tidy_at__isnull=False).update(tidy_at=past)
    for field in ("not_before", "next_probe_at", "settle_at"):
        PendingAction.objects.exclude(**{field: None}).update(**{field: past})


def look_again() -> None:
    now_it_is_time()
    maintenance.sweep()
    work()


def drafts(server: GmailServer) -> list[str]:
    return list(server.box(ADA).drafts)


def drop(name: str, *, after: bool = False) -> Plan:
    return lambda server: server.drop(name, after=after)


def fail(name: str, status: int, reason: str = "", **more: Any) -> Plan:
    return lambda server: server.fail(name, status, reason, **more)


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


def test_mail_to_five_hundred_recipients_leaves_whole(
    api: Api, reviewer: Reviewer, gmail: GmailServer
) -> None:
    everybody = [f"guest{number}@northwind.example" for number in range(500)]
    action = approve(api, reviewer, to=everybody, bcc=[HIDDEN])
    work()
    assert state(api, action) == ("succeeded", None)
    assert sorted(gmail.ledger[0].recipients) == sorted([*everybody, HIDDEN])


def test_draft_of_the_owner_is_sent_and_no_longer_a_draft(
    api: Api, reviewer: Reviewer, gmail: GmailServer
) -> None:
    draft = api.tool("create_draft", to=[MIRA], subject="Mine", body="Words.").json()
    answer = api.tool("send_draft", draft_id=draft["id"], confirm=True).json()
    reviewer.decide(answer["action"]["id"], "approve")
    work()
    assert [parsed(sent.content)["Subject"] for sent in gmail.ledger] == ["Mine"]
    assert drafts(gmail) == []


def test_draft_changed_after_its_proposal_is_not_sent(
    api: Api, reviewer: Reviewer, gmail: GmailServer
) -> None:
    draft = api.tool("create_draft", to=[MIRA], subject="Mine", body="Words.").json()
    answer = api.tool("send_draft", draft_id=draft["id"], confirm=True).json()
    gmail.put_draft(ADA, letter("Other words"), drafts(gmail)[0])
    reviewer.decide(answer["action"]["id"], "approve")
    work()
    action = PendingAction.objects.get()
    assert (state(api, action), gmail.ledger, len(drafts(gmail))) == (
        ("failed", "draft_changed"),
        [],
        1,
    )


@pytest.mark.parametrize("confirm", [False, True])
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
        pytest.param(fail("drafts.send", 504, after=True), id="504-though-it-went-out"),
        pytest.param(fail("drafts.send", 302, after=True), id="redirect"),
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
        pytest.param(fail("drafts.send", 503), id="503-and-it-did-not-go-out"),
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


# Throttled: later


def http_date(seconds: int) -> str:
    return format_datetime(datetime.now(UTC) + timedelta(seconds=seconds), usegmt=True)


@pytest.mark.fault(33)
@pytest.mark.parametrize("at", ["drafts.send", "drafts.create"])
@pytest.mark.parametrize(
    ("retry_after", "least", "most"),
    [
        pytest.param("40", 38, 41, id="seconds"),
        pytest.param("date", 85, 91, id="http-date"),
        pytest.param("99999999", 3590, 3601, id="absurd"),
        pytest.param("soon", 2, 5, id="unreadable"),
    ],
)
def test_429_pauses_the_mailbox_and_reuses_the_draft(
    api: Api,
    approved: PendingAction,
    gmail: GmailServer,
    at: str,
    retry_after: str,
    least: int,
    most: int,
) -> None:
    value = http_date(90) if retry_after == "date" else retry_after
    gmail.fail(at, 429, headers={"retry-after": value})
    work()
    assert state(api, approved) == ("approved", "rate_limited")
    assert least < (Rest.objects.get().until - timezone.now()).total_seconds() < most
    PendingAction.objects.update(not_before=timezone.now() - timedelta(seconds=1))
    work()
    assert gmail.ledger == []  # the mailbox cools down

    look_again()
    assert state(api, approved) == ("succeeded", None)
    assert (len(gmail.ledger), drafts(gmail)) == (1, [])
    assert gmail.count("drafts.create") == (1 if at == "drafts.send" else 2)


@pytest.mark.fault(34)
@pytest.mark.parametrize("at", ["drafts.send", "drafts.create"])
@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        pytest.param("rateLimitExceeded", ("approved", "rate_limited"), id="rate-limit"),
        pytest.param("insufficientPermissions", ("failed", "auth_error"), id="permission"),
    ],
)
def test_403_is_judged_by_its_reason(
    api: Api,
    approved: PendingAction,
    gmail: GmailServer,
    at: str,
    reason: str,
    expected: tuple[str, str],
) -> None:
    gmail.fail(at, 403, reason)
    work()
    assert state(api, approved) == expected
    assert Mailbox.objects.get().status == "active"
    if reason == "insufficientPermissions":
        assert api.get(f"/actions/{approved.pk}").json()["error"]["required_scope"] == COMPOSE
    look_again()
    assert len(gmail.ledger) == (reason == "rateLimitExceeded")
    assert drafts(gmail) == []


@pytest.mark.fault(34)
def test_401_on_the_send_is_retried_with_a_new_token(
    api: Api, approved: PendingAction, gmail: GmailServer
) -> None:
    gmail.fail("drafts.send", 401, "authError")
    work()
    assert state(api, approved) == ("approved", "auth_error")
    assert (gmail.count("drafts.send"), gmail.count("token")) == (1, 1)
    look_again()
    assert (state(api, approved)[0], len(gmail.ledger)) == ("succeeded", 1)


# A draft that could not be read is neither gone nor unchanged

TOKEN, SCOPE, SWITCHED_OFF, NO_SERVICE = (
    (401, "authError"),
    (403, "insufficientPermissions"),
    (403, "accessNotConfigured"),
    (400, "failedPrecondition"),
)


@pytest.mark.fault(34)
@pytest.mark.parametrize("at", ["drafts.create", "drafts.get"])
def test_401_before_the_send_is_retried_with_a_new_token(
    api: Api, approved: PendingAction, gmail: GmailServer, at: str
) -> None:
    gmail.fail(at, *TOKEN)
    work()
    assert (state(api, approved), gmail.count("token")) == (("approved", "auth_error"), 1)
    look_again()
    assert (state(api, approved)[0], len(gmail.ledger), drafts(gmail)) == ("succeeded", 1, [])


@pytest.mark.fault(34, 35)
@pytest.mark.parametrize(
    ("refusal", "expected", "sent"),
    [
        pytest.param(TOKEN, ("approved", "auth_error"), 1, id="token"),
        pytest.param(SCOPE, ("failed", "auth_error"), 0, id="permission"),
        pytest.param(SWITCHED_OFF, ("failed", "refused"), 0, id="switched-off"),
        pytest.param(NO_SERVICE, ("failed", "refused"), 0, id="no-service"),
    ],
)
def test_unreadable_draft_is_not_reported_as_changed(
    api: Api,
    reviewer: Reviewer,
    gmail: GmailServer,
    refusal: tuple[int, str],
    expected: tuple[str, str],
    sent: int,
) -> None:
    draft = api.tool("create_draft", to=[MIRA], subject="Mine", body="Words.").json()
    answer = api.tool("send_draft", draft_id=draft["id"], confirm=True).json()
    reviewer.decide(answer["action"]["id"], "approve")
    gmail.fail("drafts.get", *refusal)
    work()
    action = PendingAction.objects.get()
    assert (state(api, action), gmail.ledger) == (expected, [])
    look_again()
    assert len(gmail.ledger) == sent


@pytest.mark.parametrize("at", ["messages.get", "threads.get"])
@pytest.mark.parametrize("refusal", [TOKEN, SCOPE, SWITCHED_OFF, NO_SERVICE])
def test_reply_waits_while_its_thread_cannot_be_read(
    api: Api, reviewer: Reviewer, gmail: GmailServer, refusal: tuple[int, str], at: str
) -> None:
    first = gmail.deliver(ADA, letter("Question", Message_ID="<first@northwind.example>"))
    original = gmail.deliver(
        ADA,
        letter(
            "Re: Question",
            Message_ID="<q@northwind.example>",
            References="<first@northwind.example>",
        ),
    )
    assert original.thread == first.thread != original.id
    answer = api.tool("reply_email", message_id=original.id, comment="Yes.", confirm=True).json()
    reviewer.decide(answer["action"]["id"], "approve")
    gmail.deliver(
        ADA, letter("Re: Question", References="<first@northwind.example>", text="Do not answer.\n")
    )
    gmail.fail(at, *refusal, times=None)
    look_again()
    look_again()
    action = PendingAction.objects.get()
    assert (state(api, action), gmail.ledger) == (("approved", "not_looked_at"), [])

    gmail.heal()
    look_again()
    assert (state(api, action), gmail.ledger) == (("pending", None), [])
    assert (PendingAction.objects.get().returned or {})["code"] == "thread_moved"


@pytest.mark.fault(34, 35)
@pytest.mark.parametrize(
    ("refusal", "expected"),
    [
        pytest.param(TOKEN, ("approved", "auth_error"), id="token"),
        pytest.param(SCOPE, ("failed", "auth_error"), id="permission"),
        pytest.param(NO_SERVICE, ("failed", "refused"), id="no-service"),
    ],
)
def test_reply_never_leaves_outside_its_conversation(
    api: Api,
    reviewer: Reviewer,
    gmail: GmailServer,
    refusal: tuple[int, str],
    expected: tuple[str, str],
) -> None:
    original = gmail.deliver(ADA, letter("Question", Message_ID="<q@northwind.example>"))
    answer = api.tool("reply_email", message_id=original.id, comment="Yes.", confirm=True).json()
    reviewer.decide(answer["action"]["id"], "approve")
    gmail.fail("messages.get", *refusal, only=lambda call: call.one("fields") != "threadId")
    work()
    assert (state(api, PendingAction.objects.get()), gmail.ledger) == (expected, [])


# Definite refusals


@pytest.mark.fault(35)
@pytest.mark.parametrize(
    ("plan", "code"),
    [
        pytest.param(
            fail("drafts.send", 400, "invalidArgument"), "invalid_recipient", id="400-at-send"
        ),
        pytest.param(
            fail("drafts.send", 400, "failedPrecondition"), "refused", id="400-precondition"
        ),
        pytest.param(fail("drafts.send", 403, "forbidden"), "send_as_denied", id="403-send-as"),
        pytest.param(fail("drafts.send", 413), "too_large", id="413-at-send"),
        pytest.param(fail("drafts.create", 413), "too_large", id="413-at-create"),
        pytest.param(fail("drafts.create", 400, "invalidArgument"), "refused", id="400-at-create"),
        pytest.param(fail("drafts.create", 404, "notFound"), "not_found", id="404-at-create"),
    ],
)
def test_permanent_error_fails_the_action_without_a_draft(
    api: Api, approved: PendingAction, gmail: GmailServer, plan: Plan, code: str
) -> None:
    plan(gmail)
    work()
    assert state(api, approved) == ("failed", code)
    look_again()
    assert state(api, approved) == ("failed", code)
    assert (gmail.ledger, drafts(gmail), Preparation.objects.count()) == ([], [], 0)


# Refused access


@pytest.mark.fault(36)
def test_ended_grant_disconnects_the_mailbox_and_mail_waits(
    api: Api, approved: PendingAction, gmail: GmailServer, alice: User
) -> None:
    expire_token(gmail)
    gmail.grant_ended = True
    for _ in range(3):
        look_again()
    assert state(api, approved) == ("approved", "auth_error")
    assert Mailbox.objects.get().status == "needs_reauth"
    assert (gmail.count("token"), gmail.count("drafts.create"), gmail.ledger) == (1, 0, [])
    problem = api.tool("list_emails").json()
    assert (problem["code"], "manage.py connect_mailbox gmail" in problem["detail"]) == (
        "auth_error",
        True,
    )
    assert gmail.count("token") == 1

    gmail.grant_ended = False
    connected(gmail, alice)
    look_again()
    assert (state(api, approved), len(gmail.ledger)) == (("succeeded", None), 1)


@pytest.mark.fault(36)
@pytest.mark.parametrize("by", ["reading", "proposing", "sending", "looking-at-the-thread"])
def test_mailbox_reconnected_meanwhile_stays_connected(
    api: Api, reviewer: Reviewer, gmail: GmailServer, alice: User, by: str
) -> None:
    if by == "sending":
        approve(api, reviewer)
    elif by == "looking-at-the-thread":
        original = gmail.deliver(ADA, letter("Question", Message_ID="<q@northwind.example>"))
        answer = api.tool(
            "reply_email", message_id=original.id, comment="Yes.", confirm=True
        ).json()
        reviewer.decide(answer["action"]["id"], "approve")
    expire_token(gmail)
    gmail.grant_ended = True

    def connects_again(call: Call) -> None:
        del gmail.before["token"]
        connected(gmail, alice)

    gmail.before["token"] = connects_again
    if by == "reading":
        assert api.tool("list_emails").status_code == 424  # with the earlier access
    elif by == "proposing":
        api.propose(to=["stranger@northwind.example"])
    else:
        work()
    assert gmail.count("token") == 1
    mailbox = Mailbox.objects.get()
    assert (mailbox.status, mailbox.credentials_version) == ("active", 2)
    assert api.tool("list_emails").status_code == 200
    if PendingAction.objects.filter(status="approved").exists():
        look_again()
        assert len(gmail.ledger) == 1


@pytest.mark.fault(36)
def test_client_refused_by_google_makes_the_action_wait(
    api: Api, approved: PendingAction, gmail: GmailServer
) -> None:
    expire_token(gmail)
    gmail.token_error = "invalid_client"
    work()
    assert (state(api, approved), gmail.ledger) == (("approved", "no_token"), [])
    assert "GOOGLE_CLIENT_SECRET" in api.get(f"/actions/{approved.pk}").json()["error"]["detail"]
    # Its grant is valid: it need not be connected again.
    assert Mailbox.objects.get().status == "error"

    gmail.token_error = ""
    TokenRefresh.objects.update(try_again_at=timezone.now() - timedelta(seconds=1))
    look_again()
    assert (state(api, approved), len(gmail.ledger)) == (("succeeded", None), 1)


def expire_token(server: GmailServer) -> None:
    """Make the access token expire; the refresh token stays valid."""
    mailbox = Mailbox.objects.get()
    secrets = credentials.decrypt(bytes(mailbox.credentials), mailbox_id=mailbox.pk)
    record = credentials.encrypt({**secrets, "expires_at": 0}, mailbox_id=mailbox.pk)
    Mailbox.objects.update(credentials=record)
    server.forget_tokens()


# The draft was changed


@pytest.mark.fault(37)
def test_draft_edited_before_a_second_attempt_is_not_sent(
    api: Api, approved: PendingAction, gmail: GmailServer
) -> None:
    gmail.fail("drafts.send", 429)
    work()
    (draft,) = drafts(gmail)
    gmail.put_draft(ADA, letter("The person's own words"), draft)
    look_again()
    assert state(api, approved) == ("failed", "draft_changed")
    look_again()
    assert (gmail.ledger, gmail.count("drafts.send"), drafts(gmail)) == ([], 1, [draft])


@pytest.mark.fault(37)
@pytest.mark.parametrize("before", ["drafts.get", "drafts.send"])
def test_draft_deleted_before_the_send_is_unknown(
    api: Api, approved: PendingAction, gmail: GmailServer, before: str
) -> None:
    gmail.before[before] = lambda call: (
        gmail.delete_draft(ADA, drafts(gmail)[0]) if drafts(gmail) else None
    )
    work()
    assert state(api, approved) == ("unknown", "draft_gone")
    for _ in range(len(PROBES) + 1):
        look_again()
    assert state(api, approved) == ("unknown", "draft_gone")
    assert (gmail.ledger, gmail.count("drafts.create")) == ([], 1)


@pytest.mark.fault(37)
@pytest.mark.usefixtures("naming")
def test_draft_sent_by_the_owner_counts_as_sent(
    api: Api, approved: PendingAction, gmail: GmailServer
) -> None:
    gmail.fail("drafts.send", 429)
    work()
    (draft,) = drafts(gmail)
    gmail._send(gmail.box(ADA), draft)
    look_again()
    assert state(api, approved) == ("succeeded", None)
    assert (len(gmail.ledger), gmail.count("drafts.send")) == (1, 1)


PROBE_FAILS = [
    pytest.param(503, "", id="503"),
    pytest.param(429, "rateLimitExceeded", id="429"),
    pytest.param(403, "insufficientPermissions", id="403"),
    pytest.param(0, "", id="reset"),
]


@pytest.mark.fault(39)
@pytest.mark.usefixtures("naming")
@pytest.mark.parametrize(("status", "reason"), PROBE_FAILS)
@pytest.mark.parametrize("gone_before", ["drafts.get", "drafts.send"])
def test_missing_draft_is_unknown_while_sent_is_unreadable(
    api: Api,
    approved: PendingAction,
    gmail: GmailServer,
    gone_before: str,
    status: int,
    reason: str,
) -> None:
    """Leave it unknown, because an action that counts as not sent could be cancelled, or sent
    again.
    """

    def is_sent_by_its_person(call: Call) -> None:
        if drafts(gmail):
            gmail._send(gmail.box(ADA), drafts(gmail)[0])

    gmail.before[gone_before] = is_sent_by_its_person
    gmail.fail("messages.list", status, reason, times=None)
    work()
    for _ in range(2):
        assert state(api, approved) == ("unknown", "draft_gone")
        assert api.post(f"/actions/{approved.pk}/cancel").status_code == 409
        look_again()

    gmail.heal()
    look_again()
    assert state(api, approved) == ("succeeded", None)
    assert (len(gmail.ledger), gmail.count("drafts.create")) == (1, 1)


@pytest.mark.fault(38)
@pytest.mark.parametrize(
    "tampered",
    [
        pytest.param(lambda raw: b"Bcc: spy@evil.example\r\n" + raw, id="extra-bcc"),
        pytest.param(lambda raw: raw.replace(b"mira@", b"mirra@"), id="changed-recipient"),
        pytest.param(lambda raw: raw.replace(b"JVBERi0=", b"JVBERi4="), id="swapped-attachment"),
        pytest.param(lambda raw: raw.replace(b"Thursday", b"Tuesday"), id="changed-text"),
        pytest.param(
            lambda raw: raw.replace(b"Subject: Hello", b"Subject: Hallo"), id="changed-subject"
        ),
        pytest.param(lambda raw: b"Reply-To: spy@evil.example\r\n" + raw, id="reply-to"),
        pytest.param(lambda raw: raw.replace(b"<ada@", b"<adam@"), id="changed-sender"),
        pytest.param(lambda raw: re.sub(rb"X-Mailhub-Mark: .*\r\n", b"", raw), id="lost-mark"),
        pytest.param(
            lambda raw: raw.replace(b"X-Mailhub-Mark: ", b"X-Mailhub-Mark: 0"), id="changed-mark"
        ),
    ],
)
def test_draft_that_reads_back_differently_is_not_sent(
    api: Api, reviewer: Reviewer, gmail: GmailServer, tampered: Callable[[bytes], bytes]
) -> None:
    gmail.tampers = tampered
    attachment = {"name": "a.pdf", "type": "application/pdf", "content_base64": "JVBERi0="}
    action = approve(api, reviewer, attachments=[attachment], bcc=[HIDDEN])
    work()
    assert state(api, action) == ("failed", "readback_mismatch")
    look_again()
    assert (gmail.ledger, gmail.count("drafts.send"), drafts(gmail)) == ([], 0, [])


def test_draft_that_gmail_only_formats_differently_is_sent(
    api: Api, approved: PendingAction, gmail: GmailServer
) -> None:
    gmail.tampers = lambda raw: (
        b"Received: by 10.0.0.1\r\n" + raw.replace(b"Message-ID:", b"X-Was:")
    )
    work()
    assert state(api, approved) == ("succeeded", None)


# The lookup fails


@pytest.mark.fault(39)
@pytest.mark.usefixtures("naming")
def test_failed_lookup_and_late_index_are_no_evidence(
    api: Api, approved: PendingAction, gmail: GmailServer
) -> None:
    gmail.drop("drafts.send", after=True)
    gmail.lists_lag = True
    work()
    gmail.fail("messages.list", 503)
    now_it_is_time()
    maintenance.sweep()
    assert state(api, approved)[0] == "unknown"
    for _ in range(2):
        look_again()
        assert state(api, approved)[0] == "unknown"

    gmail.lists_lag = False
    look_again()
    assert state(api, approved) == ("succeeded", None)
    assert (len(gmail.ledger), gmail.count("drafts.send")) == (1, 1)


@pytest.mark.fault(39)
@pytest.mark.usefixtures("naming")
def test_late_search_index_does_not_hide_a_sent_mail(
    api: Api, approved: PendingAction, gmail: GmailServer
) -> None:
    gmail.search_lags = True
    gmail.drop("drafts.send", after=True)
    work()
    look_again()
    assert state(api, approved) == ("succeeded", None)
    assert len(gmail.sources(ADA, "SENT")) == 1


def test_copy_in_sent_is_not_doubled_before_it_is_visible(
    api: Api, approved: PendingAction, gmail: GmailServer
) -> None:
    gmail.lists_lag = True
    work()
    look_again()
    assert state(api, approved) == ("succeeded", None)
    assert len(gmail.sources(ADA, "SENT")) == 1


def test_unconfirmed_draft_is_found_and_used(
    api: Api, approved: PendingAction, gmail: GmailServer
) -> None:
    gmail.drop("drafts.create", after=True)
    work()
    assert state(api, approved) == ("approved", "connection_lost")
    look_again()
    assert state(api, approved) == ("succeeded", None)
    assert (gmail.count("drafts.create"), len(gmail.ledger), drafts(gmail)) == (1, 1, [])


@pytest.mark.usefixtures("naming")
def test_unconfirmed_draft_sent_by_the_owner_is_not_repeated(
    api: Api, approved: PendingAction, gmail: GmailServer
) -> None:
    gmail.drop("drafts.create", after=True)
    work()
    gmail._send(gmail.box(ADA), drafts(gmail)[0])
    look_again()
    assert state(api, approved) == ("succeeded", None)
    assert (gmail.count("drafts.create"), gmail.count("drafts.send"), len(gmail.ledger)) == (
        1,
        0,
        1,
    )


def test_unconfirmed_draft_renamed_by_gmail_is_found(
    api: Api, approved: PendingAction, gmail: GmailServer
) -> None:
    gmail.tampers = lambda raw: re.sub(
        rb"(?m)^Message-ID:.*", b"Message-ID: <CA1@mail.gmail.com>\r", raw
    )
    gmail.drop("drafts.create", after=True)
    work()
    look_again()
    assert state(api, approved) == ("succeeded", None)
    assert (gmail.count("drafts.create"), len(gmail.ledger), drafts(gmail)) == (1, 1, [])


def test_unconfirmed_draft_is_removed_if_nothing_leaves(
    api: Api, approved: PendingAction, gmail: GmailServer
) -> None:
    gmail.drop("drafts.create", after=True)
    work()
    own = gmail.put_draft(ADA, letter("The person's own"))
    api.post(f"/actions/{approved.pk}/cancel")
    look_again()
    assert (drafts(gmail), gmail.ledger) == ([own], [])


# The worker dies


ON_BOTH = [
    pytest.param("SQLite", marks=[pytest.mark.process, pytest.mark.sqlite_only]),
    pytest.param("PostgreSQL", marks=pytest.mark.postgres_only),
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
        worker = stack.enter_context(
            WorkerProcess(tmp_path, MAILHUB_LEASE_SECONDS=3, **urls, **this_test())
        )
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
    maintenance.end_dead_leases()
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
        maintenance.end_dead_leases()
        connection.close()

    gmail.before["drafts.send"] = takes_the_lease
    gmail.drop("drafts.send", after=True)
    execute(approved.pk, worker="test")
    assert state(api, approved)[0] == "unknown"
    look_again()
    assert state(api, approved) == ("succeeded", None)
    assert (len(gmail.ledger), gmail.count("drafts.send")) == (1, 1)


# Kept tokens, and two refreshes at once


@pytest.mark.fault(58)
def test_database_holds_no_usable_token(
    api: Api, mailbox: Mailbox, gmail: GmailServer, alice: User
) -> None:
    secrets = credentials.decrypt(bytes(mailbox.credentials), mailbox_id=mailbox.pk)
    dump = (
        b"".join(str(row).encode() + bytes(row["credentials"]) for row in Mailbox.objects.values())
        + str([*ApiToken.objects.values()]).encode()
    )
    for secret in (
        secrets["refresh_token"],
        secrets["access_token"],
        CLIENT["client_secret"],
        api.secret,
    ):
        assert secret.encode() not in dump
    other = connected(gmail, alice, "other@lovelace.example")
    Mailbox.objects.filter(pk=other.pk).update(credentials=mailbox.credentials)
    with pytest.raises(CannotDecrypt):
        credentials.decrypt(bytes(mailbox.credentials), mailbox_id=other.pk)


@pytest.mark.fault(59)
def test_callers_at_once_share_one_refresh(
    api: Api, mailbox: Mailbox, gmail: GmailServer, alice: User
) -> None:
    expire_token(gmail)
    gmail.new_refresh_token = "1//the-newest"
    answers = all_at_once([lambda: make_answer(api) for _ in range(4)])
    assert answers == [200] * 4
    assert gmail.count("token") == 1
    mailbox.refresh_from_db()
    secrets = credentials.decrypt(bytes(mailbox.credentials), mailbox_id=mailbox.pk)
    assert secrets["refresh_token"] == "1//the-newest"
    expire_token(gmail)
    assert make_answer(api) == 200  # with the newest token: the one before is no longer valid


def make_answer(api: Api) -> int:
    return int(Api(secret=api.secret).tool("list_emails").status_code)


# No content in a log


@pytest.mark.fault(56)
@pytest.mark.parametrize(
    "plan",
    [
        pytest.param(lambda server: None, id="success"),
        pytest.param(drop("drafts.send", after=True), id="reset"),
        pytest.param(fail("drafts.send", 400, "invalidArgument"), id="400"),
        pytest.param(fail("drafts.create", 500), id="500"),
        pytest.param(lambda server: setattr(server, "grant_ended", True), id="invalid-grant"),
    ],
)
def test_no_secret_or_content_is_in_log_error_or_audit(
    api: Api, reviewer: Reviewer, gmail: GmailServer, logged: io.StringIO, plan: Plan
) -> None:
    approve(api, reviewer, to=["canary-to@x.example"], subject="canary-subject", body="canary-body")
    plan(gmail)
    if gmail.grant_ended:
        expire_token(gmail)
    work()
    for _ in range(2):
        look_again()
    api.tool("gmail_search_messages", query="canary-query")

    lines = logged.getvalue()
    assert "attempt_ended" in lines
    secrets = credentials.decrypt(
        bytes(Mailbox.objects.get().credentials), mailbox_id=Mailbox.objects.get().pk
    )
    for canary in ("canary-", str(secrets["refresh_token"]), str(secrets["access_token"])):
        assert canary not in lines
    stored = json.dumps(
        [
            *PendingAction.objects.values_list("error"),
            *AuditEvent.objects.values_list("event", "data"),
        ]
    )
    assert "canary" not in stored
