"""The whole send path on a mailbox of Microsoft 365 whose answers are lost, late or wrong.

The ledger of the server is the witness: every sent mail is there, whatever the answer was.
"""

import io
import json
import logging
import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.utils import timezone

from accounts.infra import credentials
from accounts.models import Mailbox, TokenRefresh
from approvals.models import Heartbeat, PendingAction, Preparation, Rest
from approvals.worker import maintenance
from tests.conftest import Api, Reviewer
from tests.graphserver import GraphServer
from tests.graphstore import Item, as_recipient
from tests.mailserver import ADA, CHARLES, MIRA
from tests.outlook import api, graph, letter, mailbox, state
from tests.processes import WorkerProcess, this_test, until
from tests.signin import SignInService
from tests.work import work

__all__ = ["api", "graph", "mailbox"]
pytestmark = pytest.mark.django_db
HIDDEN = "hidden@copy.example"
PDF = b"%PDF-1.4\n" + bytes(range(256))
Tamper = Callable[[Item], object]


@pytest.fixture
def approved(api: Api, reviewer: Reviewer) -> PendingAction:
    """Return an action that a person has approved and no worker has claimed."""
    return approve(api, reviewer)


def approve(api: Api, reviewer: Reviewer, **changes: Any) -> PendingAction:
    action_id = api.propose(**{"to": [MIRA], "cc": [CHARLES], "bcc": [HIDDEN], **changes})
    assert reviewer.decide(action_id, "approve").status_code == 302
    return PendingAction.objects.get(pk=action_id)


def probe() -> None:
    """Make the next lookup due, and run it."""
    PendingAction.objects.filter(status="unknown").update(
        next_probe_at=timezone.now() - timedelta(seconds=1)
    )
    maintenance.reconcile()


def now_it_is_time() -> None:
    Rest.objects.update(until=timezone.now() - timedelta(seconds=1))
    PendingAction.objects.filter(status="approved").update(
        not_before=timezone.now() - timedelta(seconds=1)
    )
    Preparation.objects.update(tidy_at=timezone.now() - timedelta(seconds=1))


def created(graph: GraphServer) -> int:
    return sum(hit.action == "create" for hit in graph.hits)


def test_approved_mail_leaves_once_as_the_verified_draft(
    approved: PendingAction, graph: GraphServer
) -> None:
    work()
    work()
    assert state(approved) == ("succeeded", None)
    (accepted,) = graph.ledger
    assert (accepted.recipients, accepted.endpoint) == ((MIRA, CHARLES, HIDDEN), "send")
    assert accepted.message_id == accepted.marker == approved.message_id
    assert len(graph.sends()) == 1
    assert (graph.drafts(ADA), len(graph.sent(ADA))) == ([], 1)
    assert set(approved.receipt or {}) == {"at", "recipient_count", "provider"}
    assert all('IdType="ImmutableId"' in hit.prefer for hit in graph.hits)


# Lost answers


@pytest.mark.fault(30, 31)
@pytest.mark.parametrize(
    "status",
    [
        pytest.param(0, id="reset-after-the-effect"),
        pytest.param(500, id="500"),
        pytest.param(502, id="502"),
        pytest.param(503, id="503"),
        pytest.param(504, id="504"),
        pytest.param(307, id="redirect"),
    ],
)
def test_send_without_an_answer_is_looked_up_not_repeated(
    approved: PendingAction, graph: GraphServer, status: int
) -> None:
    if status:
        graph.fault("answer_after_effect", status=status, Location=f"{graph.url}/me/messages")
    else:
        graph.fault("drop_after_effect")
    work()
    assert state(approved)[0] == "unknown"
    work()
    assert len(graph.sends()) == 1
    probe()
    assert state(approved) == ("succeeded", None)
    assert approved.attempts.get().evidence == "probe"
    assert [accepted.message_id for accepted in graph.ledger] == [approved.message_id]
    assert len(graph.sends()) == 1


@pytest.mark.fault(23, 30, 31)
@pytest.mark.parametrize(
    "phase",
    [
        pytest.param("drop_after", id="reset-after-the-post-was-read"),
        pytest.param("drop_before", id="reset-before-it-was-read"),
        pytest.param("answer", id="503-and-nothing-sent"),
    ],
)
def test_draft_seen_unsent_twice_is_destroyed_and_made_again(
    approved: PendingAction, graph: GraphServer, phase: Any
) -> None:
    graph.fault(phase)
    work()
    assert state(approved)[0] == "unknown"
    assert len(graph.sends()) == (phase != "drop_before")
    before = len(graph.sends())
    probe()
    work()
    assert (state(approved)[0], len(graph.sends())) == ("unknown", before)
    probe()
    assert state(approved) == ("approved", "draft_destroyed")
    assert graph.drafts(ADA) == []
    now_it_is_time()
    work()
    assert state(approved) == ("succeeded", None)
    assert [accepted.message_id for accepted in graph.ledger] == [approved.message_id]
    assert created(graph) == 2


@pytest.mark.fault(30)
def test_silent_server_gets_exactly_one_request(
    approved: PendingAction, graph: GraphServer, settings: Any
) -> None:
    settings.MAILHUB_WIRE_TIMEOUT_SECONDS = 1
    held = graph.hold(after_effect=True)
    work()
    held.release()
    assert state(approved) == ("unknown", "no_answer")
    assert len(graph.sends()) == 1


@pytest.mark.fault(30)
def test_unreachable_server_has_sent_nothing(approved: PendingAction, settings: Any) -> None:
    settings.GRAPH_BASE_URL = "http://127.0.0.1:9/v1.0"
    work()
    assert state(approved) == ("approved", "unreachable")


@pytest.mark.fault(32)
def test_acceptance_with_retry_after_counts(approved: PendingAction, graph: GraphServer) -> None:
    graph.fault("answer_after_effect", status=202, Retry_After="30")
    work()
    work()
    assert state(approved) == ("succeeded", None)
    assert (len(graph.sends()), len(graph.ledger), Rest.objects.count()) == (1, 1, 0)


@pytest.mark.fault(33)
@pytest.mark.parametrize(
    ("retry_after", "low", "high"),
    [
        pytest.param("30", 28, 31, id="seconds"),
        pytest.param("date", 1500, 1810, id="date"),
        pytest.param("999999999999", 3590, 3601, id="absurd"),
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
        pytest.param(
            400, "ErrorInvalidRecipients", "invalid_recipient", None, id="invalid-recipients"
        ),
        pytest.param(403, "ErrorSendAsDenied", "send_as_denied", None, id="send-as"),
        pytest.param(403, "ErrorAccessDenied", "auth_error", "Mail.Send", id="access-denied"),
        pytest.param(404, "ErrorItemNotFound", "not_found", None, id="not-found"),
        pytest.param(413, "RequestBodyTooLarge", "too_large", None, id="too-large"),
        pytest.param(422, "ErrorWhatever", "refused", None, id="anything-else"),
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


def test_token_refused_at_the_send_is_renewed_for_a_retry(
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
        graph.fault("answer", status=401, code="InvalidAuthenticationToken")
        work()
        assert state(approved) == ("approved", "token_refused")
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


def expire(mailbox: Mailbox) -> None:
    record = credentials.encrypt(
        {**secrets_of(mailbox), "expires_at": time.time() - 1}, mailbox_id=mailbox.pk
    )
    Mailbox.objects.filter(pk=mailbox.pk).update(credentials=record)


def secrets_of(mailbox: Mailbox) -> credentials.Secrets:
    return credentials.decrypt(
        bytes(Mailbox.objects.get(pk=mailbox.pk).credentials), mailbox_id=mailbox.pk
    )


# A draft that could not be read is neither gone nor unchanged


@pytest.mark.parametrize("on", ["get", "list"])
@pytest.mark.parametrize(
    ("status", "code"), [(403, "ErrorAccessDenied"), (400, "ErrorInvalidRequest")]
)
def test_reply_waits_while_its_thread_cannot_be_read(
    api: Api, reviewer: Reviewer, graph: GraphServer, on: str, status: int, code: str
) -> None:
    graph.deliver(ADA, letter().as_bytes())
    original = api.tool("list_emails").json()["emails"][0]["id"]
    answer = api.tool("reply_email", message_id=original, comment="Yes.", confirm=True).json()
    assert reviewer.decide(answer["action"]["id"], "approve").status_code == 302
    action = PendingAction.objects.get(pk=answer["action"]["id"])
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
    [(403, "ErrorAccessDenied", "auth_error"), (400, "ErrorInvalidRequest", "refused")],
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


# Changes by somebody else


def throttled_with_a_draft(graph: GraphServer) -> Item:
    """Prepare the draft in a first attempt that was throttled, and return it."""
    graph.fault("answer", status=429, code="ApplicationThrottled", Retry_After="1")
    work()
    now_it_is_time()
    return graph.drafts(ADA)[0]


@pytest.mark.fault(37)
def test_draft_edited_by_the_owner_is_not_sent(approved: PendingAction, graph: GraphServer) -> None:
    draft = throttled_with_a_draft(graph)
    graph.store.patch(draft, {"subject": "Something else"})
    work()
    assert state(approved) == ("failed", "draft_changed")
    assert (len(graph.sends()), graph.ledger) == (1, [])


@pytest.mark.fault(37)
def test_draft_deleted_by_the_owner_is_not_sent(
    approved: PendingAction, graph: GraphServer
) -> None:
    draft = throttled_with_a_draft(graph)
    graph.store.move(ADA, draft, "deleteditems")
    work()
    assert state(approved) == ("failed", "draft_changed")
    assert (len(graph.sends()), graph.ledger) == (1, [])


@pytest.mark.fault(37)
def test_missing_draft_is_unknown_and_not_remade(
    approved: PendingAction, graph: GraphServer
) -> None:
    graph.store.of(ADA).pop(throttled_with_a_draft(graph).id)
    work()
    assert state(approved) == ("unknown", "draft_gone")
    for _ in range(5):
        probe()
        work()
    assert state(approved)[0] == "unknown"
    assert (len(graph.sends()), graph.ledger, created(graph)) == (1, [], 1)


@pytest.mark.fault(37)
def test_draft_sent_by_owner_is_found_in_sent(approved: PendingAction, graph: GraphServer) -> None:
    graph.accept(ADA, throttled_with_a_draft(graph), "by hand", save=True)
    work()
    probe()
    assert state(approved) == ("succeeded", None)
    assert (len(graph.sends()), len(graph.ledger)) == (1, 1)


def test_draft_sent_by_a_slow_first_attempt_is_found_in_sent(
    approved: PendingAction, graph: GraphServer
) -> None:
    throttled_with_a_draft(graph)

    def carried_out_late(action: str) -> None:
        if action == "send":
            graph.chooser = lambda action: None
            graph.accept(ADA, graph.drafts(ADA)[0], "send", save=True)

    graph.chooser = carried_out_late
    now_it_is_time()
    work()
    assert state(approved) == ("unknown", "draft_gone")
    probe()
    assert state(approved) == ("succeeded", None)
    assert [accepted.message_id for accepted in graph.ledger] == [approved.message_id]


def test_draft_the_owner_is_sending_survives_a_cancellation(
    approved: PendingAction, graph: GraphServer, api: Api
) -> None:
    draft = throttled_with_a_draft(graph)
    graph.store.move(ADA, draft, "sentitems")  # in transit: already moved, and still a draft
    assert api.post(f"/actions/{approved.pk}/cancel").json()["state"] == "cancelled"
    now_it_is_time()
    maintenance.tidy()
    assert draft.folder == "sentitems"


# A draft whose id nobody knows: the worker died, or the answer was lost, right after its creation


@pytest.fixture(params=["create", "createReply"])
def unconfirmed(
    api: Api, reviewer: Reviewer, graph: GraphServer, request: pytest.FixtureRequest
) -> PendingAction:
    if request.param == "create":
        action = approve(api, reviewer)
    else:
        graph.deliver(ADA, letter().as_bytes())
        original = api.tool("list_emails").json()["emails"][0]["id"]
        answer = api.tool("reply_email", message_id=original, comment="Yes.", confirm=True).json()
        assert reviewer.decide(answer["action"]["id"], "approve").status_code == 302
        action = PendingAction.objects.get(pk=answer["action"]["id"])
    graph.fault("drop_after_effect", on=request.param)
    work()
    assert (state(action)[0], len(graph.drafts(ADA))) == ("approved", 1)
    return action


def test_unconfirmed_draft_is_removed_before_another_is_made(
    unconfirmed: PendingAction, graph: GraphServer
) -> None:
    now_it_is_time()
    work()
    assert state(unconfirmed) == ("succeeded", None)
    assert (len(graph.ledger), graph.drafts(ADA)) == (1, [])


def test_unconfirmed_draft_sent_by_the_owner_is_not_repeated(
    unconfirmed: PendingAction, graph: GraphServer
) -> None:
    graph.accept(ADA, graph.drafts(ADA)[0], "by hand", save=True)
    now_it_is_time()
    work()
    # A reply is returned to its person before that, because its conversation has moved on.
    answers = unconfirmed.tool == "reply_email"
    assert state(unconfirmed) == (("pending", None) if answers else ("unknown", "draft_gone"))
    assert (graph.sends(), len(graph.ledger)) == ([], 1)


@pytest.mark.parametrize(
    "then", ["stays in Sent", "is filed elsewhere", "is thrown away", "is on its way"]
)
def test_incomplete_draft_sent_by_the_owner_is_not_repeated(
    approved: PendingAction, graph: GraphServer, then: str
) -> None:
    graph.fault("answer", on="get")
    work()
    (draft,) = graph.drafts(ADA)
    graph.accept(ADA, draft, "by hand", save=True)
    match then:
        case "is filed elsewhere":
            graph.store.move(ADA, draft, "archive")
        case "is thrown away":
            graph.store.of(ADA).pop(draft.id)
        case "is on its way":
            draft.shown["isDraft"] = True
    now_it_is_time()
    work()
    assert state(approved) == ("unknown", "draft_gone")
    assert (graph.sends(), len(graph.ledger)) == ([], 1)


def test_unconfirmed_draft_is_removed_if_nothing_leaves(
    unconfirmed: PendingAction, graph: GraphServer, api: Api
) -> None:
    own = graph.store.new(ADA, "drafts", {"subject": "The person's own"})
    api.post(f"/actions/{unconfirmed.pk}/cancel")
    now_it_is_time()
    maintenance.tidy()
    assert (graph.drafts(ADA), graph.ledger) == ([own], [])


def one_more_bcc(item: Item) -> None:
    item.shown["bccRecipients"] = [
        *item.shown["bccRecipients"],
        as_recipient("spy@elsewhere.example"),
    ]


def another_recipient(item: Item) -> None:
    item.shown["toRecipients"] = [as_recipient("mira@n0rthwind.example")]


def another_file(item: Item) -> None:
    for file in item.files:
        file["contentBytes"] = "AAAA"


def another_text(item: Item) -> None:
    item.shown["body"]["content"] = item.shown["body"]["content"].replace("Thursday", "Friday")


def another_link(item: Item) -> None:
    item.shown["body"]["content"] = item.shown["body"]["content"].replace(
        "good.example", "evil.example"
    )


@pytest.mark.fault(38)
@pytest.mark.parametrize(
    ("tamper", "of", "what"),
    [
        pytest.param(one_more_bcc, "create", "bcc", id="extra-bcc"),
        pytest.param(another_recipient, "create", "to", id="changed-recipient"),
        pytest.param(another_file, "attachments", "attachments", id="swapped-attachment"),
        pytest.param(another_text, "create", "body", id="changed-text"),
        pytest.param(another_link, "create", "body", id="changed-link"),
    ],
)
def test_draft_with_other_content_is_never_sent(
    api: Api, reviewer: Reviewer, graph: GraphServer, tamper: Tamper, of: str, what: str
) -> None:
    file = {"name": "a.pdf", "content_base64": "JVBERi0xLjQK"}
    body = {
        "body": '<p>Until Thursday, <a href="https://good.example/">here</a></p>',
        "body_type": "html",
    }
    action = approve(api, reviewer, attachments=[file], **body)
    graph.tamper = tamper
    graph.on_attach = tamper if of == "attachments" else graph.on_attach
    work()
    assert state(action) == ("failed", "readback_mismatch")
    assert what in (action.error or {})["detail"]
    assert (graph.sends(), graph.ledger) == ([], [])
    maintenance.tidy()
    assert graph.drafts(ADA) == []


def test_html_rewritten_without_a_change_of_meaning_is_sent(
    api: Api, reviewer: Reviewer, graph: GraphServer
) -> None:
    def rewritten(item: Item) -> None:
        content = item.shown["body"]["content"]
        item.shown["body"]["content"] = (
            f"<html><head><meta charset=utf-8></head><body>\r\n{content}\r\n</body></html>"
        )

    graph.tamper = rewritten
    action = approve(
        api, reviewer, body='<p>See <a href="https://good.example/">here</a></p>', body_type="html"
    )
    work()
    assert state(action) == ("succeeded", None)


TEXT = "Hello Mira,\n  a < b & c: https://good.example/?x=1&y=2\n\nAlice"


def test_text_shown_by_exchange_as_html_is_sent_as_text(
    api: Api, reviewer: Reviewer, graph: GraphServer
) -> None:
    graph.shows_html = True
    action = approve(api, reviewer, body=TEXT)
    work()
    assert state(action) == ("succeeded", None)
    assert graph.sent(ADA)[0].shown["body"] == {"contentType": "text", "content": f"{TEXT}\n"}


def misled(item: Item) -> None:
    item.shown["body"] = {
        "contentType": "html",
        "content": '<a href="https://evil.example/">Hello Mira.</a>',
    }
    item.changed()


@pytest.mark.fault(38)
@pytest.mark.parametrize("at_read", [0, 2])
def test_text_that_became_a_link_is_never_sent(
    api: Api, reviewer: Reviewer, graph: GraphServer, at_read: int
) -> None:
    reads: list[Item] = []

    def changed_between_the_looks(item: Item) -> None:
        reads.append(item)
        if len(reads) == at_read:
            misled(item)

    graph.shows_html, graph.on_read = True, changed_between_the_looks
    graph.tamper = graph.tamper if at_read else misled
    action = approve(api, reviewer, body="Hello Mira.")
    work()
    assert state(action) == ("failed", "readback_mismatch")
    assert len(reads) == 2
    assert (graph.sends(), graph.ledger) == ([], [])


# The lookup itself fails


@pytest.mark.fault(39)
def test_failed_lookup_or_late_index_leaves_it_unknown(
    approved: PendingAction, graph: GraphServer
) -> None:
    graph.fault("drop_after_effect")
    work()
    graph.fault("answer", on="list", status=500, times=2)
    for _ in range(2):
        probe()
    graph.index_lags = True
    for _ in range(2):
        probe()
        work()
    assert state(approved)[0] == "unknown"
    assert approved.next_probe_at is not None
    assert len(graph.sends()) == 1

    graph.index_lags = False
    probe()
    assert state(approved) == ("succeeded", None)
    assert len(graph.ledger) == 1


@pytest.mark.fault(39)
def test_mark_finds_a_mail_with_another_id(approved: PendingAction, graph: GraphServer) -> None:
    graph.renames = True
    graph.fault("drop_after_effect")
    work()
    probe()
    assert state(approved) == ("succeeded", None)
    assert approved.attempts.get().reference == graph.ledger[0].message_id != approved.message_id


@pytest.mark.parametrize("effect", [True, False])
def test_lost_answer_without_drafts_is_found_by_our_mark(
    api: Api, reviewer: Reviewer, graph: GraphServer, mailbox: Mailbox, effect: bool
) -> None:
    Mailbox.objects.update(scopes=["Mail.Read", "Mail.Send"])
    action = approve(api, reviewer)
    graph.fault("drop_after_effect" if effect else "drop_after")
    work()
    for _ in range(3):
        probe()
        work()
    assert state(action)[0] == ("succeeded" if effect else "unknown")
    assert [hit.action for hit in graph.sends()] == ["sendMail"]
    assert len(graph.ledger) == effect


# The worker or the database fails


@pytest.mark.fault(27)
@pytest.mark.django_db(transaction=True)
def test_database_error_after_the_202_loses_nothing(
    approved: PendingAction, graph: GraphServer
) -> None:
    refused: list[str] = []

    def once(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if graph.ledger and not refused and 'UPDATE "approvals_attempt"' in sql:
            refused.append(sql)
            raise OperationalError("the database is restarting")
        return execute(sql, params, many, context)

    with connection.execute_wrapper(once):
        work()
    assert len(refused) == 1
    assert state(approved) == ("succeeded", None)
    assert (len(graph.ledger), len(graph.sends())) == (1, 1)


ON_SQLITE = pytest.param("SQLite", marks=[pytest.mark.process, pytest.mark.sqlite_only])
ON_POSTGRES = pytest.param("PostgreSQL", marks=pytest.mark.postgres_only)


@pytest.mark.fault(23, 24)
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "after_effect",
    [
        pytest.param(False, id="killed-before-the-effect"),
        pytest.param(True, id="killed-after-the-effect"),
    ],
)
@pytest.mark.parametrize("database", [ON_SQLITE, ON_POSTGRES])
def test_mail_leaves_once_if_a_worker_dies_at_the_send(
    approved: PendingAction,
    graph: GraphServer,
    tmp_path: Path,
    database: str,
    after_effect: bool,
    settings: Any,
) -> None:
    settings.MAILHUB_HOME = tmp_path
    held = graph.hold(after_effect=after_effect)
    with ExitStack() as workers:
        environment = {"MAILHUB_LEASE_SECONDS": 3, "GRAPH_BASE_URL": graph.url, **this_test()}
        worker = workers.enter_context(WorkerProcess(tmp_path, **environment))
        until(
            lambda: Heartbeat.objects.filter(worker__endswith=f":{worker.pid}").exists(),
            say=worker.log,
        )
        held.wait()
        worker.kill_9()
        held.release()
    PendingAction.objects.filter(status="executing").update(
        lease_until=timezone.now() - timedelta(seconds=1)
    )
    maintenance.end_dead_leases()
    assert state(approved) == ("unknown", "worker_lost")
    probe()
    if not after_effect:
        assert state(approved)[0] == "unknown"
        probe()
        now_it_is_time()
        work()
    assert state(approved) == ("succeeded", None)
    assert [accepted.message_id for accepted in graph.ledger] == [approved.message_id]


@pytest.mark.fault(58)
def test_prepared_and_kept_data_hold_no_readable_secret(
    approved: PendingAction, graph: GraphServer, mailbox: Mailbox
) -> None:
    throttled_with_a_draft(graph)
    token = next(iter(graph.tokens))
    assert token.encode() not in bytes(Mailbox.objects.get(pk=mailbox.pk).credentials)
    assert set(Preparation.objects.get().notes) == {
        "marker",
        "draft",
        "source",
        "version",
        "folder",
    }
