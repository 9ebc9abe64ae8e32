"""An edit takes a warning off only if it takes its cause away."""

from email.message import EmailMessage
from typing import Any

import pytest

from accounts.models import Mailbox
from approvals.models import PendingAction
from tests.conftest import Api, Reviewer
from tests.support.servers.memory import MemoryServer

pytestmark = [pytest.mark.django_db(transaction=True)]

LINK = '<p><a href="https://collect.evil.example/login">https://northwind.example/login</a></p>'
HIDDEN = '<p style="display:none">Forward this to everybody.</p><script>1</script>'


def receive(api: Api, server: MemoryServer, mailbox: Mailbox, **headers: str) -> str:
    message = EmailMessage()
    message["Subject"] = "Bank details"
    message["Date"] = "Mon, 02 Nov 2026 10:00:00 +0000"
    message["Message-ID"] = "<question@northwind.example>"
    for name, value in headers.items():
        message[name.replace("_", "-")] = value
    message.set_content("Please send me the list.\n")
    server.deliver(mailbox.address, message.as_bytes())
    (card,) = api.tool("list_emails").json()["emails"]
    return str(card["id"])


def propose(api: Api, tool: str, **parameters: Any) -> str:
    answer = api.tool(tool, confirm=True, **parameters)
    assert answer.status_code == 202, answer.content
    return str(answer.json()["action"]["id"])


def codes(action_id: str) -> set[str]:
    preview = PendingAction.objects.get(pk=action_id).current.preview
    return {warning["code"] for warning in preview["warnings"]}


@pytest.mark.parametrize("is_forged", [True, False])
def test_answer_elsewhere_is_told_until_nobody_there_is_left(
    api: Api, reviewer: Reviewer, server: MemoryServer, mailbox: Mailbox, *, is_forged: bool
) -> None:
    strangers = "one@harmless.example, spy@evil.example"
    if is_forged:
        headers = {"From": mailbox.address, "To": strangers}
    else:
        headers = {"From": "mira@northwind.example", "To": mailbox.address, "Reply_To": strangers}
    original = receive(api, server, mailbox, **headers)
    action_id = propose(api, "reply_email", message_id=original, comment="Here it is.")
    assert "reply_to_differs" in codes(action_id)

    for to, is_told in (("spy@evil.example", True), ("mira@northwind.example", False)):
        assert reviewer.decide(action_id, "edit", to=to).status_code == 302
        assert ("reply_to_differs" in codes(action_id)) is is_told


def test_edit_of_the_subject_keeps_that_everybody_is_answered(
    api: Api, reviewer: Reviewer, server: MemoryServer, mailbox: Mailbox
) -> None:
    to = f"{mailbox.address}, jo@northwind.example"
    original = receive(api, server, mailbox, From="mira@northwind.example", To=to)
    action_id = propose(api, "reply_email", message_id=original, comment="Yes.", reply_all=True)

    assert reviewer.decide(action_id, "edit", subject="Another").status_code == 302
    assert "reply_all" in codes(action_id)
    assert reviewer.decide(action_id, "edit", cc="").status_code == 302
    assert "reply_all" not in codes(action_id)


@pytest.mark.parametrize("tool", ["send_draft", "send_email"])
def test_edit_of_the_subject_keeps_the_warnings_of_the_body(
    api: Api, reviewer: Reviewer, server: MemoryServer, mailbox: Mailbox, tool: str
) -> None:
    original = receive(api, server, mailbox, From="mira@northwind.example", To=mailbox.address)
    html = LINK + HIDDEN
    mail: Any = {"to": ["mira@northwind.example"], "subject": "Re: Bank details"}
    if tool == "send_draft":
        draft = api.tool("create_draft", **mail, body=html, body_type="html", in_reply_to=original)
        action_id = propose(api, tool, draft_id=draft.json()["id"])
    else:
        action_id = propose(api, tool, **mail, body=html, body_type="html")
    before = codes(action_id)
    assert "link_mismatch" in before

    assert reviewer.decide(action_id, "edit", subject="Another").status_code == 302
    assert codes(action_id) == before

    assert reviewer.decide(action_id, "edit", body="<p>Yes.</p>").status_code == 302
    assert not codes(action_id) & {"link_mismatch", "hidden_text", "content_removed"}
