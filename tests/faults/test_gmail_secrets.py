"""Tokens of Gmail in the database, their refresh, and no secret or content in a log."""

import io
import json

import pytest

from accounts.infra import credentials
from accounts.infra.credentials import CannotDecrypt
from accounts.models import ApiToken, Mailbox, User
from approvals.models import AuditEvent, PendingAction
from tests.conftest import Api, Reviewer
from tests.faults.gmail_road import (
    Plan,
    approve,
    drop,
    expire_token,
    fail,
    look_again,
)
from tests.support.concurrently import all_at_once
from tests.support.people.gmail import CLIENT, connected, gmail, mailbox
from tests.support.servers.gmail import GmailServer
from tests.support.work import work

__all__ = ["gmail", "mailbox"]
pytestmark = pytest.mark.django_db(transaction=True)


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
        pytest.param(fail("drafts.create", 500), id="500", marks=pytest.mark.long),
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
