"""The checks of the sender (SPF, DKIM, DMARC): what programs read, and what an approver is warned of."""

from email import message_from_string
from typing import Any

import pytest

from approvals.models import PendingAction
from tests.conftest import Api, Reviewer
from tests.support.servers.memory import MemoryServer
from tools.mail.message.authentication import read_verdicts, servers_of

pytestmark = pytest.mark.django_db(transaction=True)

ALICE, MIRA, IRA = "alice@lovelace.example", "mira@northwind.example", "ira@atelier.example"
OWN, FOREIGN = "mx.lovelace.example", "mx.northwind.example"
BORDER = (
    f"Received: from x.example (x [192.0.2.1]) by {OWN} with ESMTPS; Thu, 1 Jan 2026 00:00:00 +0000"
)
FAILED = "spf=pass smtp.mailfrom=evil.example; dkim=none; dmarc=fail header.from=northwind.example"
PASSED = "spf=pass smtp.mailfrom=a; dkim=pass header.d=northwind.example; dmarc=pass header.from=a"
CODE = "sender_unconfirmed"


def results(text: str, *, by: str = OWN) -> str:
    return f"Authentication-Results: {by};\r\n {text}"


def receive(api: Api, server: MemoryServer, *headers: str, sender: str = MIRA) -> str:
    """Deliver a mail with these headers at its top, and return its id."""
    lines = (*headers, f"From: {sender}", f"To: {ALICE}", "Subject: Invoice", "Message-ID: <1@x>")
    server.deliver(ALICE, "\r\n".join((*lines, "", "Please pay.", "")).encode())
    return str(api.tool("list_emails").json()["emails"][0]["id"])


def propose(api: Api, tool: str, message_id: str) -> Any:
    given: dict[str, Any] = {"message_id": message_id, "comment": "Hello"}
    if tool == "forward_email":
        given["to"] = [IRA]
    if tool == "send_draft":
        draft = api.tool("draft_reply", message_id=message_id, body="Hello").json()
        given = {"draft_id": draft["id"]}
    answer = api.tool(tool, **given, confirm=True)
    assert answer.status_code == 202, answer.content
    return answer.json()


def severity(action_id: str) -> str:
    """Return the severity of the warning, or an empty text without a warning."""
    warnings = PendingAction.objects.get(pk=action_id).current.preview["warnings"]
    return next((each["severity"] for each in warnings if each["code"] == CODE), "")


@pytest.mark.parametrize("tool", ["reply_email", "forward_email", "send_draft"])
def test_answer_to_a_failing_sender_warns_on_the_page(
    api: Api, reviewer: Reviewer, server: MemoryServer, tool: str
) -> None:
    answer = propose(api, tool, receive(api, server, BORDER, results(FAILED)))

    told = {each["code"]: each["text"] for each in answer["warnings"]}
    said = f"{MIRA} wrote it, but the checks of your mail server failed (SPF: pass, DKIM: none, DMARC: fail)"
    assert said in told[CODE]
    action_id = answer["action"]["id"]
    assert said.encode() in reviewer.page(action_id).content
    assert reviewer.decide(action_id, "edit", subject="Another subject").status_code == 302
    assert severity(action_id) == "notice"  # an edit does not remove it


@pytest.mark.parametrize(
    ("headers", "warns"),
    [
        pytest.param([BORDER], False, id="no-checks"),
        pytest.param([results(PASSED)], False, id="passed"),
        pytest.param([results(FAILED, by=FOREIGN)], False, id="foreign-name"),
        pytest.param([results(PASSED, by=FOREIGN), results(FAILED)], True, id="foreign-above"),
        pytest.param([results(PASSED), results(FAILED)], False, id="failed-below-own"),
        pytest.param([results(FAILED), results(PASSED)], True, id="passed-below-own"),
        pytest.param([results("spf=fail; dkim=pass")], False, id="one-of-two-without-dmarc"),
        pytest.param([results("spf=fail; dkim=none; dmarc=none")], False, id="unsigned"),
        pytest.param([results("spf=softfail; dkim=fail; dmarc=none")], True, id="both"),
        pytest.param([results("spf=fail; dkim=fail; dmarc=pass")], False, id="dmarc-decides"),
    ],
)
def test_only_failed_checks_of_the_own_server_warn(
    api: Api, server: MemoryServer, headers: list[str], *, warns: bool
) -> None:
    answer = propose(api, "reply_email", receive(api, server, *headers))
    assert bool(severity(answer["action"]["id"])) is warns


@pytest.mark.parametrize("sender", ["boss@lovelace.example", IRA])
def test_failing_mail_of_an_acquaintance_is_a_risk(
    api: Api, server: MemoryServer, sender: str
) -> None:
    to_ira = f"From: {ALICE}\r\nTo: {IRA}\r\nSubject: Hi\r\n\r\nHi\r\n"
    server.deliver(ALICE, to_ira.encode(), folder="sent")
    answer = propose(api, "reply_email", receive(api, server, results(FAILED), sender=sender))
    assert severity(answer["action"]["id"]) == "risk"


def test_checks_are_read_with_the_mail_and_shown_beside_it(
    api: Api, reviewer: Reviewer, server: MemoryServer
) -> None:
    message_id = receive(api, server, results(FAILED))

    said = {"spf": "pass", "dkim": "none", "dmarc": "fail"}
    assert api.tool("read_email", message_id=message_id).json()["authentication"] == said
    (found,) = api.tool("read_thread", message_id=message_id).json()["messages"]
    assert found["authentication"] == said
    action_id = propose(api, "reply_email", message_id)["action"]["id"]
    page = reviewer.client.get(f"/actions/{action_id}/conversation/").content
    assert b"SPF: pass, DKIM: none, DMARC: fail" in page


def test_mail_without_checks_says_nothing_about_them(api: Api, server: MemoryServer) -> None:
    message_id = receive(api, server, BORDER, results(PASSED, by=FOREIGN))
    assert "authentication" not in api.tool("read_email", message_id=message_id).json()


@pytest.mark.parametrize("helo", ["mail.evil.example", "x(", '"', "a by mail.evil.example"])
def test_client_cannot_hide_a_check_by_its_name(helo: str) -> None:
    taken = f"Received: from {helo} (unknown [192.0.2.7])\r\n by {OWN} (Postfix) with ESMTP id 2"
    block = message_from_string(f"{taken}\r\n{results(FAILED)}\r\nFrom: {MIRA}\r\n\r\n")
    verdicts = read_verdicts(block, servers_of("", "lovelace.example"))
    assert verdicts["dmarc"] == "fail"


def test_twin_of_a_forged_mail_does_not_take_the_warning(api: Api, server: MemoryServer) -> None:
    message_id = receive(
        api, server, BORDER, results(FAILED), "Date: Thu, 1 Jan 2026 10:00:00 +0000"
    )
    receive(api, server, BORDER, results(PASSED), "Date: Thu, 1 Jan 2026 09:00:00 +0000")
    assert severity(propose(api, "send_draft", message_id)["action"]["id"])
