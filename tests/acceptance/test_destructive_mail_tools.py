"""Send, reply and forward on Microsoft 365, line by line of the seed list
(docs/dev/seed-coverage.md).

`seeds_way` is a mailbox that may only read and send: there the endpoints make and send a mail in
one call.
"""

import base64
import io
import logging
from typing import Any

import pytest

from accounts.infra import credentials
from accounts.models import Mailbox
from approvals.models import PendingAction
from approvals.worker import maintenance
from tests.conftest import HELLO, Api, Reviewer, problem_of
from tests.graphserver import GraphServer, Hit
from tests.mailserver import ADA, MIRA
from tests.outlook import api, approved, graph, letter, mailbox, now_it_is_time, state
from tests.work import work
from tools.providers.graph.outgoing import MARKER
from tools.schemas import ForwardEmail, ReplyEmail, SendEmail

__all__ = ["api", "graph", "mailbox"]
pytestmark = pytest.mark.django_db
JO, SAM = "jo@northwind.example", "sam@northwind.example"
TOOLS = ("send_email", "reply_email", "forward_email")


@pytest.fixture
def seeds_way(mailbox: Mailbox) -> Mailbox:
    mailbox.scopes = ["Mail.Read", "Mail.Send"]
    mailbox.save()
    return mailbox


@pytest.fixture
def message_id(api: Api, graph: GraphServer) -> str:
    graph.deliver(ADA, letter(to=f"{ADA}, {JO}", Cc=SAM).as_bytes())
    return first_in(api, "inbox")


def first_in(api: Api, folder: str) -> str:
    return str(api.tool("list_emails", folder=folder, max_results=1).json()["emails"][0]["id"])


def asked(tool: str, message_id: str, **changes: Any) -> dict[str, Any]:
    """Return the arguments that a caller gives each tool."""
    given: dict[str, dict[str, Any]] = {
        "send_email": {**HELLO},
        "reply_email": {"message_id": message_id, "comment": "On Thursday."},
        "forward_email": {"message_id": message_id, "to": [JO], "comment": "For you."},
    }
    return {**given[tool], **changes}


def proposed(
    api: Api, reviewer: Reviewer, tool: str, message_id: str = "", **changes: Any
) -> PendingAction:
    """Propose, approve and execute an action, and return it."""
    action = approved(reviewer, api.tool(tool, **asked(tool, message_id, confirm=True, **changes)))
    work()
    return action


def only_send(graph: GraphServer) -> Hit:
    (hit,) = graph.sends()
    return hit


def without_marker(body: dict[str, Any]) -> dict[str, Any]:
    """Return the body without our marker, which must be there, and without an empty message."""
    message = dict(body["message"])
    (mark,) = message.pop("singleValueExtendedProperties")
    assert mark["id"] == MARKER
    return {name: value for name, value in {**body, "message": message}.items() if value != {}}


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
    ("changes", "expected"),
    [
        pytest.param({}, {}, id="plain"),
        pytest.param(
            {"body": "<p>Hi</p>", "body_type": "html"}, {"body": {"contentType": "HTML", "content": "<p>Hi</p>\n"}},
            id="html",
        ),
        pytest.param(
            {"cc": [JO], "bcc": [SAM]},
            {
                "ccRecipients": [{"emailAddress": {"address": JO}}],
                "bccRecipients": [{"emailAddress": {"address": SAM}}],
            },
            id="cc-and-bcc",
        ),
        pytest.param({"importance": "high"}, {"importance": "high"}, id="importance"),
        pytest.param(
            {"attachments": [{"name": "a.pdf", "type": "application/pdf", "content_base64": "JVBERg=="}]},
            {"attachments": [{"@odata.type": "#microsoft.graph.fileAttachment", "name": "a.pdf",
                              "contentType": "application/pdf", "contentBytes": "JVBERg=="}]},
            id="attachment",
        ),
    ],
)  # fmt: skip
def test_approved_message_reaches_one_endpoint_unchanged(
    api: Api,
    reviewer: Reviewer,
    graph: GraphServer,
    seeds_way: Mailbox,
    changes: dict[str, Any],
    expected: dict[str, Any],
) -> None:
    action = proposed(api, reviewer, "send_email", **changes)
    hit = only_send(graph)
    assert (hit.method, hit.path) == ("POST", "/v1.0/me/sendMail")
    plain = {
        "subject": "Hello",
        "body": {"contentType": "Text", "content": HELLO["body"] + "\n"},
        "toRecipients": [{"emailAddress": {"address": MIRA}}],
        "importance": "normal",
    }
    assert without_marker(hit.body) == {"message": plain | expected, "saveToSentItems": True}
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


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize(
    ("status", "provider_code", "code", "scope"),
    [
        pytest.param(400, "ErrorInvalidRecipients", "invalid_recipient", None, id="400"),
        pytest.param(403, "ErrorAccessDenied", "auth_error", "Mail.Send", id="403"),
        pytest.param(404, "ErrorItemNotFound", "not_found", None, id="404"),
        pytest.param(413, "RequestBodyTooLarge", "too_large", None, id="413"),
        pytest.param(429, "ApplicationThrottled", "rate_limited", None, id="429"),
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


@pytest.mark.parametrize("way", ["drafts", "seeds"])
@pytest.mark.parametrize("tool", TOOLS)
def test_same_key_sends_once_and_a_new_key_again(
    api: Api,
    reviewer: Reviewer,
    graph: GraphServer,
    mailbox: Mailbox,
    message_id: str,
    tool: str,
    way: str,
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
    api: Api, reviewer: Reviewer, graph: GraphServer, mailbox: Mailbox, effect: bool
) -> None:
    """Leave a lost answer to a person: mailhub cannot look in Sent, not even for known
    recipients.
    """
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


# reply_email


@pytest.mark.parametrize("reply_all", [False, True])
def test_reply_preview_needs_one_get_request(
    api: Api, graph: GraphServer, seeds_way: Mailbox, message_id: str, reply_all: bool
) -> None:
    graph.hits.clear()
    answer = api.tool(
        "reply_email", message_id=message_id, comment="On Thursday.", reply_all=reply_all
    ).json()
    shown = answer["preview"]
    assert (shown["original"]["subject"], shown["original"]["from"]) == (
        "Delivery on Thursday?",
        MIRA,
    )
    assert shown.get("cc", []) == ([JO, SAM] if reply_all else [])
    assert shown["original"].get("to") == ([ADA, JO] if reply_all else None)
    assert shown["original"].get("cc") == ([SAM] if reply_all else None)
    assert {hit.method for hit in graph.hits} == {"GET"}
    (hit,) = [
        hit
        for hit in graph.hits
        if "internetMessageHeaders" in hit.query.get("$select", "") and hit.action != "list"
    ]
    assert {"subject", "from", "toRecipients", "ccRecipients"} <= set(
        hit.query["$select"].split(",")
    )
    # The page does not show the quote that Microsoft 365 will add; a warning says so.
    assert shown["body_excerpt"] == "On Thursday."
    assert "quote_by_provider" in {warning["code"] for warning in answer["warnings"]}


@pytest.mark.parametrize(("reply_all", "endpoint"), [(False, "reply"), (True, "replyAll")])
def test_reply_sends_only_the_comment_to_its_endpoint(
    api: Api,
    reviewer: Reviewer,
    graph: GraphServer,
    seeds_way: Mailbox,
    message_id: str,
    reply_all: bool,
    endpoint: str,
) -> None:
    action = proposed(api, reviewer, "reply_email", message_id, reply_all=reply_all)
    hit = only_send(graph)
    assert hit.path.endswith(f"/{endpoint}")
    assert without_marker(hit.body) == {"comment": "On Thursday."}
    (accepted,) = graph.ledger
    assert (state(action), accepted.marker) == (("succeeded", None), action.message_id)
    assert set(accepted.recipients) == ({MIRA, JO, SAM} if reply_all else {MIRA})


@pytest.mark.parametrize("tool", ["reply_email", "forward_email"])
def test_unknown_original_is_not_found(
    api: Api, graph: GraphServer, message_id: str, tool: str
) -> None:
    for known in ("nonsense", "A" * 16, "\u00e4"):
        problem = problem_of(api.tool(tool, **asked(tool, known)))
        assert (problem["code"], problem["status"]) == ("not_found", 404)


@pytest.mark.parametrize("way", ["drafts", "seeds"])
@pytest.mark.parametrize("tool", ["reply_email", "forward_email"])
def test_original_deleted_meanwhile_sends_nothing(
    api: Api,
    reviewer: Reviewer,
    graph: GraphServer,
    mailbox: Mailbox,
    message_id: str,
    tool: str,
    way: str,
) -> None:
    if way == "seeds":
        Mailbox.objects.update(scopes=["Mail.Read", "Mail.Send"])
    action = approved(reviewer, api.tool(tool, **asked(tool, message_id, confirm=True)))
    graph.store.of(ADA).clear()
    work()
    assert (state(action), graph.ledger) == (("failed", "not_found"), [])


@pytest.mark.parametrize("tool", ["reply_email", "forward_email"])
def test_permission_lost_after_approval_sends_nothing(
    api: Api, reviewer: Reviewer, graph: GraphServer, mailbox: Mailbox, message_id: str, tool: str
) -> None:
    action = approved(reviewer, api.tool(tool, **asked(tool, message_id, confirm=True)))
    Mailbox.objects.update(scopes=["Mail.Read", "Mail.Send"])
    work()
    error = api.get(f"/actions/{action.pk}").json()["error"]
    assert (error["code"], error["required_scope"]) == ("auth_error", "Mail.ReadWrite")
    assert (graph.sends(), graph.ledger) == ([], [])


# forward_email


@pytest.mark.parametrize("with_file", [False, True])
def test_forward_preview_says_if_files_go_along(
    api: Api, graph: GraphServer, with_file: bool
) -> None:
    message = letter()
    if with_file:
        message.add_attachment(b"%PDF", "application", "pdf", filename="a.pdf")
    graph.deliver(ADA, message.as_bytes())
    shown = api.tool("forward_email", message_id=first_in(api, "inbox"), to=[JO]).json()["preview"]
    assert shown["original"] == {
        "subject": "Delivery on Thursday?",
        "from": MIRA,
        "has_attachments": with_file,
    }
    assert f"to: {JO}. Attachments: {'yes' if with_file else 'no'}." in shown["text"]


@pytest.mark.parametrize("comment", [None, "For you."])
@pytest.mark.parametrize("to", [[JO], [JO, SAM], [ADA]], ids=["one", "several", "oneself"])
def test_forward_names_recipients_and_no_empty_comment(
    api: Api,
    reviewer: Reviewer,
    graph: GraphServer,
    seeds_way: Mailbox,
    to: list[str],
    comment: str | None,
) -> None:
    message = letter()
    message.add_attachment(b"%PDF", "application", "pdf", filename="a.pdf")
    graph.deliver(ADA, message.as_bytes())
    action = proposed(
        api, reviewer, "forward_email", first_in(api, "inbox"), to=to, comment=comment
    )
    assert only_send(graph).path.endswith("/forward")
    assert without_marker(only_send(graph).body) == {
        "toRecipients": [{"emailAddress": {"address": address}} for address in to],
        **({"comment": comment} if comment else {}),
    }
    assert (state(action), graph.ledger[0].recipients) == (("succeeded", None), tuple(to))
    assert b"a.pdf" in graph.ledger[0].source


# By drafts: the reply stays in its thread, and the whole text is the approved text


def test_reply_by_a_draft_is_sent_as_approved_in_its_thread(
    api: Api, reviewer: Reviewer, graph: GraphServer, message_id: str
) -> None:
    action = proposed(api, reviewer, "reply_email", message_id, reply_all=True)
    assert state(action) == ("succeeded", None)
    (item,) = graph.sent(ADA)
    assert item.references == ("<question@northwind.example>",)
    assert (
        item.shown["conversationId"]
        == next(iter(graph.store.of(ADA).values())).shown["conversationId"]
    )
    assert item.shown["subject"] == "Re: Delivery on Thursday?"
    assert item.shown["body"]["content"].startswith("On Thursday.\n\nOn Mon, 02 Nov 2026")
    assert "> When do you come?" in item.shown["body"]["content"]
    assert "____" not in item.shown["body"]["content"]
    assert graph.ledger[0].recipients == (MIRA, JO, SAM)


def test_forward_draft_keeps_the_original_files(
    api: Api, reviewer: Reviewer, graph: GraphServer
) -> None:
    message = letter()
    message.add_attachment(b"%PDF" * 100, "application", "pdf", filename="a.pdf")
    message.add_attachment("one\n", filename="b.txt")
    graph.deliver(ADA, message.as_bytes())
    action = proposed(api, reviewer, "forward_email", first_in(api, "inbox"))
    assert state(action) == ("succeeded", None)
    assert [file["name"] for file in graph.sent(ADA)[0].files] == ["a.pdf", "b.txt"]
    assert not [hit for hit in graph.hits if hit.action == "attachments" and hit.method == "POST"]


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


@pytest.mark.parametrize("tool", ["reply_email", "forward_email"])
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


def test_sent_mail_is_in_the_list_of_sent(api: Api, reviewer: Reviewer, graph: GraphServer) -> None:
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
@pytest.mark.parametrize("status", [202, 400, 503])
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
