"""Gmail throttles, refuses a mail, or refuses access: the action waits or fails, and nothing leaves
twice.
"""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from django.utils import timezone

from accounts.models import Mailbox, TokenRefresh, User
from approvals.models import PendingAction, Preparation, Rest
from tests.conftest import Api, Reviewer
from tests.faults.gmail_road import (
    COMPOSE,
    MIRA,
    Plan,
    approve,
    approved,
    drafts,
    expire_token,
    fail,
    look_again,
    state,
)
from tests.support.people.gmail import ADA, connected, gmail, letter, mailbox
from tests.support.servers.gmail import GmailServer
from tests.support.servers.gmail_data import Call
from tests.support.work import work

__all__ = ["approved", "gmail", "mailbox"]
pytestmark = pytest.mark.django_db(transaction=True)


def http_date(seconds: int) -> str:
    return format_datetime(datetime.now(UTC) + timedelta(seconds=seconds), usegmt=True)


# test_gmail_answers.py has every code of an answer, and test_outcomes.py what follows from each
# class of error. Here one cell stands for a class: its way through the send, to the person.
LONG = pytest.mark.long


@pytest.mark.fault(33)
@pytest.mark.parametrize("at", ["drafts.send", pytest.param("drafts.create", marks=LONG)])
@pytest.mark.parametrize(
    ("retry_after", "least", "most"),
    [
        pytest.param("40", 38, 41, id="seconds"),
        pytest.param("date", 85, 91, id="http-date", marks=LONG),
        pytest.param("99999999", 3590, 3601, id="absurd", marks=LONG),
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


TOO_OFTEN = ("rateLimitExceeded", ("approved", "rate_limited"))
NOT_ALLOWED = ("insufficientPermissions", ("failed", "auth_error"))


@pytest.mark.fault(34)
@pytest.mark.parametrize(
    ("at", "reason", "expected"),
    [
        pytest.param("drafts.create", *TOO_OFTEN, id="create-rate-limit"),
        pytest.param("drafts.send", *NOT_ALLOWED, id="send-permission"),
        pytest.param("drafts.send", *TOO_OFTEN, id="send-rate-limit", marks=LONG),
        pytest.param("drafts.create", *NOT_ALLOWED, id="create-permission", marks=LONG),
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
@pytest.mark.parametrize("at", ["drafts.get", pytest.param("drafts.create", marks=LONG)])
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
        pytest.param(SWITCHED_OFF, ("failed", "refused"), 0, id="switched-off", marks=LONG),
        pytest.param(NO_SERVICE, ("failed", "refused"), 0, id="no-service", marks=LONG),
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
@pytest.mark.parametrize(
    "refusal",
    [SCOPE, *(pytest.param(each, marks=LONG) for each in (TOKEN, SWITCHED_OFF, NO_SERVICE))],
)
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
        pytest.param(SCOPE, ("failed", "auth_error"), id="permission", marks=LONG),
        pytest.param(NO_SERVICE, ("failed", "refused"), id="no-service", marks=LONG),
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
        pytest.param(fail("drafts.create", 413), "too_large", id="413-at-create"),
        *(
            pytest.param(
                fail(at, status, reason), code, id=f"{status}-{reason}-at-{at}", marks=LONG
            )
            for at, status, reason, code in (
                ("drafts.send", 400, "failedPrecondition", "refused"),
                ("drafts.send", 403, "forbidden", "send_as_denied"),
                ("drafts.send", 413, "", "too_large"),
                ("drafts.create", 400, "invalidArgument", "refused"),
                ("drafts.create", 404, "notFound", "not_found"),
            )
        ),
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
@pytest.mark.parametrize(
    "by", ["reading", "sending", "looking-at-the-thread", pytest.param("proposing", marks=LONG)]
)
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
