"""Send, reply and forward on Microsoft 365, line by line of the seed list
(docs/dev/seed-coverage.md).

`seeds_way` is a mailbox that may only read and send: there `sendMail` takes the approved bytes.
"""

import base64
import io
import logging
from email import message_from_bytes
from typing import Any

import pytest

from accounts.infra import credentials
from accounts.models import Mailbox
from approvals.models import PendingAction
from approvals.worker import maintenance
from tests.acceptance.mail_tools import (
    JO,
    SAM,
    TOOLS,
    approved_bytes,
    asked,
    message_id,
    only_send,
    proposed,
    seeds_way,
)
from tests.conftest import HELLO, Api, Reviewer
from tests.support.people.outlook import graph, mailbox, now_it_is_time, state
from tests.support.servers.graph import GraphServer
from tests.support.servers.sandbox import ADA, MIRA
from tests.support.work import work
from tools.schemas import ForwardEmail, ReplyEmail, SendEmail

__all__ = ["graph", "mailbox", "message_id", "seeds_way"]
pytestmark = pytest.mark.django_db
LONG = pytest.mark.long
ONE = ["reply_email", *(pytest.param(tool, marks=LONG) for tool in ("send_email", "forward_email"))]


# send_email


def test_preview_shows_mail_and_sends_nothing(api: Api, graph: GraphServer) -> None:
    answer = api.tool("send_email", **HELLO, cc=[JO], bcc=[SAM])
    shown = answer.json()["preview"]
    assert (answer.status_code, answer.json()["status"]) == (200, "preview")
    assert (shown["to"], shown["cc"], shown["bcc"]) == ([MIRA], [JO], [SAM])
    assert (shown["subject"], shown["body_excerpt"]) == (HELLO["subject"], HELLO["body"])
    # The recipients' history is looked up in Sent.
    assert {hit.method for hit in graph.hits} <= {"GET"}
    assert (graph.ledger, PendingAction.objects.count()) == ([], 0)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, id="plain"),
        pytest.param({"body": "<p>Hi</p>", "body_type": "html"}, id="html"),
        pytest.param({"cc": [JO], "bcc": [SAM]}, id="cc-and-bcc"),
        pytest.param({"importance": "high"}, id="importance"),
        pytest.param(
            {"attachments": [{"name": "a.pdf", "type": "application/pdf", "content_base64": "JVBERg=="}]},
            id="attachment",
        ),
    ],
)  # fmt: skip
def test_approved_message_reaches_one_endpoint_unchanged(
    api: Api, reviewer: Reviewer, graph: GraphServer, seeds_way: Mailbox, changes: dict[str, Any]
) -> None:
    action = proposed(api, reviewer, "send_email", **changes)
    hit = only_send(graph)
    assert (hit.method, hit.path) == ("POST", "/v1.0/me/sendMail")
    head, approved, rest = hit.body.partition(approved_bytes(action))
    assert (approved != b"", rest) == (True, b"")
    added = dict(message_from_bytes(head + b"\r\n"))
    assert added.pop("Date")
    assert added == ({"Bcc": SAM} if "bcc" in changes else {})
    (accepted,) = graph.ledger
    assert accepted.recipients == (MIRA, *changes.get("cc", ()), *changes.get("bcc", ()))
    shown = api.get(f"/actions/{action.pk}").json()
    assert shown["state"] == "succeeded"
    assert set(shown["receipt"]) == {"at", "recipient_count", "provider"}


def test_send_endpoint_serves_mail_without_a_copy(
    api: Api, reviewer: Reviewer, graph: GraphServer
) -> None:
    action = proposed(api, reviewer, "send_email", save_to_sent_items=False)
    assert (only_send(graph).action, only_send(graph).body["saveToSentItems"]) == (
        "sendMail",
        False,
    )
    assert (state(action), len(graph.ledger), graph.sent(ADA)) == (("succeeded", None), 1, [])


@pytest.mark.parametrize("tool", ONE)
@pytest.mark.parametrize(
    ("status", "provider_code", "code", "scope"),
    [
        pytest.param(403, "ErrorAccessDenied", "auth_error", "Mail.Send", id="403"),
        pytest.param(429, "ApplicationThrottled", "rate_limited", None, id="429"),
        # test_graph_answers.py has every status and code.
        pytest.param(
            400, "ErrorInvalidRecipients", "invalid_recipient", None, id="400", marks=LONG
        ),
        pytest.param(404, "ErrorItemNotFound", "not_found", None, id="404", marks=LONG),
        pytest.param(413, "RequestBodyTooLarge", "too_large", None, id="413", marks=LONG),
    ],
)
def test_endpoint_error_is_the_action_error(
    api: Api,
    reviewer: Reviewer,
    graph: GraphServer,
    seeds_way: Mailbox,
    message_id: str,
    tool: str,
    status: int,
    provider_code: str,
    code: str,
    scope: str | None,
) -> None:
    graph.fault("answer", status=status, code=provider_code, Retry_After="30")
    action = proposed(api, reviewer, tool, message_id)
    error = api.get(f"/actions/{action.pk}").json()["error"]
    assert (error["code"], error.get("required_scope")) == (code, scope)
    assert error.get("retry_after") == (30 if status == 429 else None)
    assert state(action)[0] == ("approved" if status == 429 else "failed")
    assert (len(graph.sends()), graph.ledger) == (1, [])


@pytest.mark.parametrize("tool", TOOLS)
def test_application_address_names_the_user(
    api: Api, reviewer: Reviewer, graph: GraphServer, seeds_way: Mailbox, message_id: str, tool: str
) -> None:
    secrets = credentials.decrypt(bytes(seeds_way.credentials), mailbox_id=seeds_way.pk)
    seeds_way.credentials = credentials.encrypt(
        {**secrets, "application": True}, mailbox_id=seeds_way.pk
    )
    seeds_way.save()
    graph.hits.clear()
    proposed(api, reviewer, tool, message_id, user_id=ADA)
    assert only_send(graph).path.startswith(f"/v1.0/users/{ADA}/")
    assert {hit.path.split("/")[2] for hit in graph.hits} == {"users"}
    assert len(graph.ledger) == 1


@pytest.mark.parametrize("way", ["drafts", pytest.param("seeds", marks=LONG)])
@pytest.mark.parametrize("tool", TOOLS)
def test_same_key_sends_once_and_a_new_key_again(
    api: Api, reviewer: Reviewer, graph: GraphServer, message_id: str, tool: str, way: str
) -> None:
    if way == "seeds":
        Mailbox.objects.update(scopes=["Mail.Read", "Mail.Send"])
    first = proposed(api, reviewer, tool, message_id, idempotency_key="one")
    again = api.tool(tool, **asked(tool, message_id, confirm=True, idempotency_key="one")).json()
    work()
    assert (again["action"]["id"], again["action"]["message"]) == (
        str(first.pk),
        "Already executed",
    )
    assert len(graph.sends()) == len(graph.ledger) == 1
    for key in ({"idempotency_key": "two"}, {}, {}):
        proposed(api, reviewer, tool, message_id, **key)
    assert len(graph.sends()) == len(graph.ledger) == 4


def test_five_hundred_recipients_get_one_mail(
    api: Api, reviewer: Reviewer, graph: GraphServer
) -> None:
    everybody = [f"person{number}@northwind.example" for number in range(500)]
    action = proposed(api, reviewer, "send_email", to=everybody)
    assert state(action) == ("succeeded", None)
    assert [accepted.recipients for accepted in graph.ledger] == [tuple(everybody)]


@pytest.mark.parametrize("effect", [True, False])
def test_send_only_mailbox_leaves_a_lost_send_unknown(
    api: Api, reviewer: Reviewer, graph: GraphServer, effect: bool
) -> None:
    """Leave a lost answer to a person: mailhub cannot look in Sent, even for known recipients."""
    Mailbox.objects.update(scopes=["Mail.Send"])
    for token, (address, _) in list(graph.tokens.items()):
        graph.tokens[token] = (address, ("Mail.Send",))
    assert state(proposed(api, reviewer, "send_email", subject="First")) == ("succeeded", None)
    graph.fault("drop_after_effect" if effect else "drop_after")
    action = proposed(api, reviewer, "send_email", subject="Second")
    PendingAction.objects.filter(status="unknown").update(next_probe_at=action.created_at)
    maintenance.reconcile()
    work()
    assert state(action)[0] == "unknown"
    assert (len(graph.sends()), len(graph.ledger)) == (2, 1 + effect)


def test_large_attachment_is_sent_in_pieces(
    api: Api, reviewer: Reviewer, graph: GraphServer
) -> None:
    content = bytes(range(256)) * (15 * 1024)  # 3.75 MB: more than one request may carry in base64
    file = {"name": "big.bin", "content_base64": base64.b64encode(content).decode()}
    action = proposed(api, reviewer, "send_email", attachments=[file])
    assert state(action) == ("succeeded", None)
    assert [
        base64.b64decode(each["contentBytes"]) == content for each in graph.sent(ADA)[0].files
    ] == [True]
    assert sum(hit.action == "upload" for hit in graph.hits) == 2


# All three tools


@pytest.mark.parametrize("tool", ["reply_email", pytest.param("forward_email", marks=LONG)])
@pytest.mark.parametrize("found_by", ["list_emails", "search_emails"])
def test_message_found_by_a_tool_is_previewed_and_sent(
    api: Api, reviewer: Reviewer, graph: GraphServer, message_id: str, tool: str, found_by: str
) -> None:
    query = {"query": "come"} if found_by == "search_emails" else {}
    (card,) = api.tool(found_by, **query).json()["emails"]
    assert card["id"] == message_id
    assert len(card["id"]) <= 20
    assert api.tool(tool, **asked(tool, card["id"])).json()["status"] == "preview"
    assert graph.ledger == []
    assert state(proposed(api, reviewer, tool, card["id"])) == ("succeeded", None)


def test_sent_mail_is_in_the_list_of_sent(api: Api, reviewer: Reviewer) -> None:
    proposed(api, reviewer, "send_email")
    (card,) = api.tool("list_emails", folder="sentitems").json()["emails"]
    assert card["subject"] == HELLO["subject"]


def test_key_is_valid_for_ever(api: Api, reviewer: Reviewer, graph: GraphServer) -> None:
    """Check a longer memory than the ten minutes of the seed list: it never sends a mail twice that
    the shorter one would not.
    """
    action = proposed(api, reviewer, "send_email", idempotency_key="k")
    PendingAction.objects.filter(pk=action.pk).update(
        created_at=action.created_at.replace(year=2025)
    )
    assert api.tool("send_email", **HELLO, confirm=True, idempotency_key="k").json()["action"][
        "id"
    ] == str(action.pk)
    assert len(graph.ledger) == 1


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize(
    "status", [400, pytest.param(202, marks=LONG), pytest.param(503, marks=LONG)]
)
def test_no_address_subject_text_or_id_is_logged(
    api: Api,
    reviewer: Reviewer,
    graph: GraphServer,
    seeds_way: Mailbox,
    message_id: str,
    tool: str,
    status: int,
) -> None:
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    logging.getLogger().addHandler(handler)
    graph.fault("answer_after_effect", status=status, code="ErrorInvalidRecipients")
    words = (
        {"subject": "Geheim", "body": "Vertraulich"}
        if tool == "send_email"
        else {"comment": "Vertraulich"}
    )
    try:
        proposed(api, reviewer, tool, message_id, **words)
    finally:
        logging.getLogger().removeHandler(handler)
    log = written.getvalue()
    assert "attempt_ended" in log
    graph_ids = list(graph.store.of(ADA))
    for secret in (
        MIRA,
        JO,
        "Geheim",
        "Vertraulich",
        "Delivery",
        message_id,
        *graph_ids,
        *graph.tokens,
    ):
        assert secret not in log


def test_parameters_have_the_documented_defaults() -> None:
    send = SendEmail.model_validate(HELLO)
    assert (send.confirm, send.body_type, send.importance, send.save_to_sent_items) == (
        False,
        "text",
        "normal",
        True,
    )
    assert ReplyEmail.model_validate({"message_id": "m", "comment": "c"}).reply_all is False
    for parameters in (SendEmail, ReplyEmail, ForwardEmail):
        assert {"idempotency_key", "confirm", "mailbox"} <= set(parameters.model_fields)


def test_mail_leaves_when_the_cool_down_ends(
    api: Api, reviewer: Reviewer, graph: GraphServer, seeds_way: Mailbox
) -> None:
    graph.fault("answer", status=429, Retry_After="30")
    action = proposed(api, reviewer, "send_email")
    work()
    assert len(graph.sends()) == 1
    now_it_is_time()
    work()
    assert (state(action), len(graph.ledger)) == (("succeeded", None), 1)
