"""One line beside a mail says who its recipients are."""

import re

import pytest

from accounts.models import Mailbox
from approvals.models import PendingAction
from tests.approvals.review_pages import text_of
from tests.conftest import Api, Reviewer
from tests.support.people.office import letter
from tests.support.servers.memory import MemoryServer

pytestmark = pytest.mark.django_db(transaction=True)
MIRA = "mira@northwind.example"


def line_about(reviewer: Reviewer, action: str) -> str:
    page = text_of(reviewer.client.get(f"/actions/{action}/recipients/"))
    return " ".join(re.sub(r"<[^>]+>", " ", page).split())


def test_line_counts_the_mail_with_each_recipient(
    api: Api, reviewer: Reviewer, mailbox: Mailbox, server: MemoryServer
) -> None:
    for number in range(3):
        mail = letter(to=mailbox.address, text=f"{number}")
        mail.replace_header("From", f"Mira Holm <{MIRA}>")
        server.deliver(mailbox.address, mail.as_bytes())
    longer = letter(to=mailbox.address, text="Somebody else")
    longer.replace_header("From", f"x{MIRA}")
    server.deliver(mailbox.address, longer.as_bytes())
    earlier = api.propose(to=[MIRA], subject="The <b>first</b>")
    action = api.propose(to=[MIRA, "nobody@northwind.example"], subject="The second")

    said = line_about(reviewer, action)

    assert "Mira Holm · 3 mails, the last" in said
    assert "1 more of this agent today The &lt;b&gt;first&lt;/b&gt;" in said
    assert "nobody@northwind.example · no mail with it yet" in said
    page = text_of(reviewer.page(action))
    assert page.count(f'hx-get="/actions/{action}/recipients/"') == 2  # one for a phone
    assert f'href="/actions/{earlier}/"' in text_of(
        reviewer.client.get(f"/actions/{action}/recipients/")
    )

    undated = letter(to=mailbox.address, text="No date")
    undated.replace_header("From", "jo@northwind.example")
    undated.replace_header("Date", "some day")
    server.deliver(mailbox.address, undated.as_bytes())
    assert "no mail" not in line_about(reviewer, api.propose(to=["jo@northwind.example"]))

    server.reachable = False
    assert "mailhub cannot look into the mailbox right now." in line_about(reviewer, action)


def test_named_source_is_a_claim_and_only_a_web_link(api: Api, reviewer: Reviewer) -> None:
    for source, is_link in (
        ("https://tickets.example/4711?a=1&b=<2>", True),
        ("javascript:alert(1)", False),
    ):
        action = api.propose(metadata={"source_url": source}, subject=source[:20])
        assert PendingAction.objects.get(pk=action).status == "pending"
        page = text_of(reviewer.page(action))
        assert ("It names as its source:" in page) is is_link
        assert 'href="javascript' not in page
        assert "mailhub has not checked this" in page
