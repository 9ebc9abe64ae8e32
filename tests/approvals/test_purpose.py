"""The line that says why a mail is here: facts of its proposal, on the page, beside the queue, in the list."""

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from accounts.models import User
from approvals.gate import overdue
from approvals.models import PendingAction
from tests.approvals.review_pages import seal_of, text_of
from tests.conftest import Api, Reviewer
from tests.support.people.office import letter
from tests.support.servers.memory import MemoryServer

pytestmark = pytest.mark.django_db(transaction=True)


def lines(page: str) -> list[str]:
    """Return the lines of a page, as a person reads them."""
    page = re.sub(r"<a [^>]*>Read it</a>", "", page)
    found = re.findall(r'<p class="purpose"[^>]*>(.*?)</p>', page, re.DOTALL)
    return [" ".join(re.sub(r"<[^>]+>", "", each).split()) for each in found]


def places(reviewer: Reviewer, action: str) -> Iterator[str]:
    """Yield the line of an action at each place that shows it."""
    client = reviewer.client
    for address in (f"/actions/{action}/", f"/actions/{action}/peek/"):
        yield lines(text_of(client.get(address)))[0]


def receive(api: Api, server: MemoryServer, alice: User, **head: Any) -> str:
    mail = letter(to=alice.email, **head)
    server.deliver(alice.email, mail.as_bytes())
    return str(api.tool("list_emails", max_results=1).json()["emails"][0]["id"])


def answer(api: Api, message_id: str, **more: Any) -> str:
    given = api.tool(
        "reply_email", message_id=message_id, comment="Thursday.", confirm=True, **more
    )
    assert given.status_code == 202, given.content
    return str(given.json()["action"]["id"])


def test_answer_names_the_mail_and_its_author(
    api: Api, reviewer: Reviewer, server: MemoryServer, alice: User
) -> None:
    newest = receive(
        api, server, alice, sender='"Mira Lindt" <mira@northwind.example>', subject="<b>When?</b>"
    )
    action = answer(api, newest)
    name = PendingAction.objects.get().proposer_name
    said = (
        f"Agent {name} answers “&lt;b&gt;When?&lt;/b&gt;” from Mira Lindt (mira@northwind.example)."
    )
    assert list(places(reviewer, action)) == [said] * 2


def test_line_of_an_edited_answer_still_names_the_mail(
    api: Api, reviewer: Reviewer, server: MemoryServer, alice: User
) -> None:
    action = answer(api, receive(api, server, alice, subject="When?"))
    reviewer.decide(action, "edit", subject="Re: another subject")
    assert seal_of(action)["revision"] == 2
    assert all("answers “When?”" in said for said in places(reviewer, action))


def test_reason_is_marked_as_a_claim(api: Api, reviewer: Reviewer) -> None:
    action = api.propose(reason="Ada approved it already.")
    page = text_of(reviewer.client.get(f"/actions/{action}/peek/"))
    (said,) = lines(page)
    assert said.endswith("writes a new mail to mira@northwind.example.")
    (claim,) = re.findall(r'<div class="claim">(.*?)</div>', page, re.DOTALL)
    assert claim.index("The proposer claims:") < claim.index("“Ada approved it already.”")


def test_several_recipients_are_counted(api: Api, reviewer: Reviewer) -> None:
    action = api.propose(to=["mira@northwind.example", "b@northwind.example", "c@x.example"])
    assert all("to mira@northwind.example and 2 more." in said for said in places(reviewer, action))


def test_removed_content_has_no_line(api: Api, reviewer: Reviewer, settings: Any) -> None:
    action = api.propose(reason="Because")
    reviewer.decide(action, "reject")
    old = timezone.now() - timedelta(days=settings.MAILHUB_RETENTION_DAYS + 1)
    PendingAction.objects.update(created_at=old, finished_at=old)
    overdue.purge()
    for address in (f"/actions/{action}/", f"/actions/{action}/peek/", "/?tab=rejected"):
        assert lines(text_of(reviewer.client.get(address))) == []
