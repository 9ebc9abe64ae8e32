"""Microsoft 365 throttles, refuses a mail, or refuses access: the action waits or fails."""

import io
import json
import logging
import time
from base64 import b64encode
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from accounts.infra import credentials
from accounts.models import Mailbox, TokenRefresh
from approvals.models import PendingAction, Rest
from approvals.worker import maintenance
from tests.conftest import Api, Reviewer
from tests.faults.graph_road import (
    approve,
    approved,
    created,
    expire,
    now_it_is_time,
    secrets_of,
    throttled_with_a_draft,
)
from tests.support.people.outlook import graph, letter, mailbox, state
from tests.support.servers.graph import GraphServer
from tests.support.servers.microsoft_sign_in import SignInService
from tests.support.servers.sandbox import ADA, MIRA
from tests.support.work import work
from tools.providers.graph.outgoing import INLINE_LIMIT

__all__ = ["approved", "graph", "mailbox"]
pytestmark = pytest.mark.django_db


# test_graph_answers.py has every code of an answer, and test_outcomes.py what follows from each
# class of error. Here one cell stands for a class: its way through the send, to the person.
LONG = pytest.mark.long


@pytest.mark.fault(33)
@pytest.mark.parametrize(
    ("retry_after", "low", "high"),
    [
        pytest.param("30", 28, 31, id="seconds"),
        pytest.param("date", 1500, 1810, id="date", marks=LONG),
        pytest.param("999999999999", 3590, 3601, id="absurd", marks=LONG),
        pytest.param("soon", 3, 6, id="unreadable"),
    ],
)  # fmt: skip
def test_429_pauses_the_mailbox_and_reuses_the_draft(
    approved: PendingAction,
    graph: GraphServer,
    api: Api,
    reviewer: Reviewer,
    retry_after: str,
    low: int,
    high: int,
) -> None:
    if retry_after == "date":
        retry_after = format_datetime(datetime.now(UTC) + timedelta(minutes=30))
    graph.fault("answer", status=429, code="ApplicationThrottled", Retry_After=retry_after)
    work()
    assert state(approved) == ("approved", "rate_limited")
    rests = (Rest.objects.get().until - timezone.now()).total_seconds()
    assert low <= rests <= high
    other = approve(api, reviewer, subject="Another")
    work()
    assert (state(other)[0], len(graph.sends())) == ("approved", 1)

    now_it_is_time()
    for _ in range(2):
        work()
    assert (state(approved)[0], state(other)[0]) == ("succeeded", "succeeded")
    assert sorted(a.message_id for a in graph.ledger) == sorted(
        (approved.message_id, other.message_id)
    )
    assert created(graph) == 2


@pytest.mark.fault(35)
@pytest.mark.parametrize(
    ("status", "provider_code", "code", "scope"),
    [
        pytest.param(403, "ErrorAccessDenied", "auth_error", "Mail.Send", id="access-denied"),
        pytest.param(413, "RequestBodyTooLarge", "too_large", None, id="too-large"),
        *(
            pytest.param(*row, None, id=row[1], marks=LONG)
            for row in (
                (400, "ErrorInvalidRecipients", "invalid_recipient"),
                (403, "ErrorSendAsDenied", "send_as_denied"),
                (404, "ErrorItemNotFound", "not_found"),
                (422, "ErrorWhatever", "refused"),
            )
        ),
    ],
)
def test_permanent_error_fails_and_hides_the_provider_text(
    approved: PendingAction,
    graph: GraphServer,
    api: Api,
    reviewer: Reviewer,
    mailbox: Mailbox,
    status: int,
    provider_code: str,
    code: str,
    scope: str | None,
) -> None:
    graph.fault("answer", status=status, code=provider_code)
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    logging.getLogger().addHandler(handler)
    try:
        work()
    finally:
        logging.getLogger().removeHandler(handler)
    error = api.get(f"/actions/{approved.pk}").json()["error"]
    assert (state(approved)[0], error["code"], error.get("required_scope")) == (
        "failed",
        code,
        scope,
    )
    if code == "too_large":
        assert "4,194,304" in error["detail"]
    page = reviewer.page(str(approved.pk)).content.decode()
    assert "PROVIDER TEXT" not in written.getvalue() + json.dumps(error) + page
    assert (len(graph.sends()), graph.ledger) == (1, [])
    assert Mailbox.objects.get(pk=mailbox.pk).status == "active"
    # Nothing is left behind: the prepared draft is removed.
    maintenance.tidy()
    assert graph.drafts(ADA) == []


@pytest.mark.fault(36)
def test_dead_grant_disconnects_the_mailbox_and_mail_waits(
    approved: PendingAction,
    graph: GraphServer,
    mailbox: Mailbox,
    tmp_path: Path,
    settings: Any,
    monkeypatch: Any,
) -> None:
    with SignInService(tmp_path, lambda given: graph.token(ADA)) as service:
        settings.MICROSOFT_CLIENT_ID, settings.MICROSOFT_AUTHORITY = "client", service.url
        monkeypatch.setenv("SSL_CERT_FILE", str(service.authority.file))
        expire(mailbox)
        graph.hits.clear()
        service.refuses = "invalid_grant"
        for _ in range(3):
            now_it_is_time()
            work()
        assert state(approved) == ("approved", "auth_error")
        assert Mailbox.objects.get(pk=mailbox.pk).status == "needs_reauth"
        assert (len(service.grants), graph.hits) == (1, [])

        # Even a worker that ignores the mailbox's state asks once an interval.
        Mailbox.objects.update(status="active")
        now_it_is_time()
        work()
        assert len(service.grants) == 1

        service.refuses = ""
        Mailbox.objects.update(status="active")
        TokenRefresh.objects.update(try_again_at=timezone.now() - timedelta(seconds=1))
        now_it_is_time()
        work()
        assert state(approved) == ("succeeded", None)
        assert len(graph.ledger) == 1
        assert secrets_of(mailbox)["refresh_token"] == "refresh 2"


@pytest.mark.parametrize("outage", [False, True])
def test_token_refused_at_the_send_is_renewed_for_a_retry(
    approved: PendingAction,
    graph: GraphServer,
    mailbox: Mailbox,
    tmp_path: Path,
    settings: Any,
    monkeypatch: Any,
    outage: bool,
) -> None:
    with SignInService(tmp_path, lambda given: graph.token(ADA)) as service:
        settings.MICROSOFT_CLIENT_ID, settings.MICROSOFT_AUTHORITY = "client", service.url
        monkeypatch.setenv("SSL_CERT_FILE", str(service.authority.file))
        graph.fault("answer", status=401, code="InvalidAuthenticationToken")
        service.refuses, service.refuses_with = "temporarily_unavailable" if outage else "", 503
        work()
        assert state(approved) == ("approved", "no_token" if outage else "token_refused")
        service.refuses = ""
        TokenRefresh.objects.update(try_again_at=timezone.now() - timedelta(seconds=1))
        now_it_is_time()
        work()
        assert state(approved) == ("succeeded", None)
        assert (len(graph.ledger), len(service.grants)) == (1, 1)


def test_refused_new_token_disconnects_no_mailbox(
    api: Api, graph: GraphServer, mailbox: Mailbox, tmp_path: Path, settings: Any, monkeypatch: Any
) -> None:
    with SignInService(tmp_path, lambda given: graph.token(ADA)) as service:
        settings.MICROSOFT_CLIENT_ID, settings.MICROSOFT_AUTHORITY = "client", service.url
        monkeypatch.setenv("SSL_CERT_FILE", str(service.authority.file))
        graph.fault("answer", on="list", status=401, code="InvalidAuthenticationToken", times=2)
        assert api.tool("list_emails").json()["code"] == "transient"
        assert Mailbox.objects.get(pk=mailbox.pk).status == "error"
        assert api.tool("list_emails").status_code == 200
        assert Mailbox.objects.get(pk=mailbox.pk).status == "active"


def test_approved_mail_leaves_without_draft_permission(
    approved: PendingAction,
    graph: GraphServer,
    mailbox: Mailbox,
    tmp_path: Path,
    settings: Any,
    monkeypatch: Any,
) -> None:
    left = ("Mail.Read", "Mail.Send")
    with SignInService(tmp_path, lambda given: graph.token(ADA, *left)) as service:
        settings.MICROSOFT_CLIENT_ID, settings.MICROSOFT_AUTHORITY = "client", service.url
        monkeypatch.setenv("SSL_CERT_FILE", str(service.authority.file))
        service.scope = "Mail.Read Mail.Send User.Read"
        expire(mailbox)
        work()
        assert state(approved) == ("succeeded", None)
        assert [hit.action for hit in graph.sends()] == ["sendMail"]
        assert (len(graph.ledger), graph.drafts(ADA)) == (1, [])
        assert list(Mailbox.objects.get(pk=mailbox.pk).scopes) == list(left)


@pytest.mark.parametrize("left", [3600, -1])
def test_mailbox_without_refresh_token_waits_for_reconnect(
    api: Api, reviewer: Reviewer, graph: GraphServer, mailbox: Mailbox, left: int
) -> None:
    action = approve(api, reviewer)
    secrets = {
        name: value for name, value in secrets_of(mailbox).items() if name != "refresh_token"
    }
    record = credentials.encrypt(
        {**secrets, "expires_at": time.time() + left}, mailbox_id=mailbox.pk
    )
    Mailbox.objects.filter(pk=mailbox.pk).update(credentials=record)
    if left > 0:  # as long as its token is valid, it works
        assert api.tool("list_emails").status_code == 200
        return
    work()
    assert state(action) == ("approved", "auth_error")
    assert Mailbox.objects.get(pk=mailbox.pk).status == "needs_reauth"
    assert api.tool("list_emails").json()["code"] == "auth_error"


def approve_reply(api: Api, reviewer: Reviewer, graph: GraphServer) -> PendingAction:
    graph.deliver(ADA, letter().as_bytes())
    original = api.tool("list_emails").json()["emails"][0]["id"]
    answer = api.tool("reply_email", message_id=original, comment="Yes.", confirm=True).json()
    assert reviewer.decide(answer["action"]["id"], "approve").status_code == 302
    return PendingAction.objects.get(pk=answer["action"]["id"])


@pytest.mark.fault(33)
def test_answer_by_hand_during_a_cool_down_returns_the_mail(
    api: Api, reviewer: Reviewer, graph: GraphServer
) -> None:
    action = approve_reply(api, reviewer, graph)
    throttled_with_a_draft(graph)
    by_hand = letter(ADA, to=MIRA, References="<question@northwind.example>")
    by_hand.replace_header("Message-ID", "<by-hand@lovelace.example>")
    graph.deliver(ADA, by_hand.as_bytes(), folder="sentitems")
    work()
    assert (state(action), graph.ledger) == (("pending", None), [])
    assert (action.returned or {})["code"] == "answered_already"


@pytest.mark.parametrize("status", [404, pytest.param(410, marks=LONG)])
def test_upload_that_microsoft_ended_begins_again(
    api: Api, reviewer: Reviewer, graph: GraphServer, status: int
) -> None:
    content = b64encode(bytes(INLINE_LIMIT)).decode()
    file = {"name": "big.bin", "content_base64": content}
    action = approve(api, reviewer, attachments=[file])
    graph.fault("answer", on="upload", status=status, code="ErrorItemNotFound")
    work()
    assert (state(action), graph.ledger) == (("approved", "unreachable"), [])
    now_it_is_time()
    work()
    assert (state(action), len(graph.ledger)) == (("succeeded", None), 1)


# A draft that could not be read is neither gone nor unchanged


@pytest.mark.parametrize("on", ["get", "list"])
@pytest.mark.parametrize(
    ("status", "code"),
    [(403, "ErrorAccessDenied"), pytest.param(400, "ErrorInvalidRequest", marks=LONG)],
)
def test_reply_waits_while_its_thread_cannot_be_read(
    api: Api, reviewer: Reviewer, graph: GraphServer, on: str, status: int, code: str
) -> None:
    action = approve_reply(api, reviewer, graph)
    later = letter(References="<question@northwind.example>")
    later.replace_header("Message-ID", "<later@northwind.example>")
    later.replace_header("Date", "Mon, 02 Nov 2026 11:00:00 +0000")
    graph.deliver(ADA, later.as_bytes())
    graph.fault("answer", on=on, status=status, code=code)
    work()
    assert (state(action), graph.ledger) == (("approved", "not_looked_at"), [])
    now_it_is_time()
    work()
    assert (state(action), graph.ledger) == (("pending", None), [])
    assert (action.returned or {})["code"] == "thread_moved"


@pytest.mark.parametrize(
    ("status", "code", "told"),
    [
        (403, "ErrorAccessDenied", "auth_error"),
        pytest.param(400, "ErrorInvalidRequest", "refused", marks=LONG),
    ],
)
def test_unreadable_draft_is_not_reported_as_changed(
    api: Api, reviewer: Reviewer, graph: GraphServer, status: int, code: str, told: str
) -> None:
    draft = api.tool("create_draft", to=[MIRA], subject="Mine", body="Words.").json()
    answer = api.tool("send_draft", draft_id=draft["id"], confirm=True).json()
    assert reviewer.decide(answer["action"]["id"], "approve").status_code == 302
    graph.fault("answer", on="get", status=status, code=code)
    work()
    assert (state(PendingAction.objects.get()), graph.ledger) == (("failed", told), [])
