"""Texts for reviewers: managers edit them, and a reviewer takes one over without scripts."""

import re
from typing import Any

import pytest

from accounts.models import Mailbox, User
from approvals.models import AuditEvent, ReviewText
from tests.approvals.review_pages import text_of
from tests.conftest import Api, Reviewer, make_mailbox
from tests.support.servers.memory import MemoryServer

pytestmark = pytest.mark.django_db(transaction=True)
SHORTER = {"purpose": "ask_back", "title": "Shorter", "words": "Please use <b>fewer</b> words."}


def post(reviewer: Reviewer, address: str, **fields: str) -> Any:
    reviewer.client.get("/mailboxes/")
    token = reviewer.client.cookies["csrftoken"].value
    return reviewer.client.post(address, {**fields, "csrfmiddlewaretoken": token})


def note(page: str, field: str) -> str:
    found = re.search(rf'<textarea[^>]*id="{field}"[^>]*>(.*?)</textarea>', page, re.DOTALL)
    assert found, "there is no such field"
    return found[1].strip()


def test_picked_text_is_in_the_note_and_decides_nothing(
    api: Api, reviewer: Reviewer, mailbox: Mailbox
) -> None:
    assert post(reviewer, f"/mailboxes/{mailbox.pk}/texts/", **SHORTER).status_code == 302
    action = api.propose()
    page = text_of(reviewer.page(action))
    assert (note(page, "back-note"), note(page, "note")) == ("", "")
    link = re.search(r'href="([^"]+text=[^"]+)"', page)
    assert link
    picked = text_of(reviewer.client.get(link[1].partition("#")[0]))
    assert note(picked, "back-note") == "Please use &lt;b&gt;fewer&lt;/b&gt; words."
    assert note(picked, "note") == ""
    assert reviewer.decide(action, "ask_back", note="Please use fewer words.").status_code == 302


def test_manager_changes_and_removes_a_text(reviewer: Reviewer, mailbox: Mailbox) -> None:
    texts = f"/mailboxes/{mailbox.pk}/texts/"
    post(reviewer, texts, **SHORTER)
    assert post(reviewer, texts, **SHORTER).status_code == 422  # the title is taken
    one = ReviewText.objects.get()
    post(reviewer, f"{texts}{one.pk}/", **{**SHORTER, "title": "Short"})
    assert ReviewText.objects.get().title == "Short"
    post(reviewer, f"{texts}{one.pk}/remove/")
    assert not ReviewText.objects.exists()
    said = AuditEvent.objects.filter(event__startswith="text_")
    assert [each.event for each in said.order_by("pk")] == [
        "text_saved",
        "text_saved",
        "text_removed",
    ]
    assert not any("fewer" in str(each.data) for each in said)


def test_only_managers_change_the_texts_of_their_mailbox(
    api: Api, reviewer: Reviewer, bob: User, mailbox: Mailbox, alice: User, server: MemoryServer
) -> None:
    other = make_mailbox("second@lovelace.example", server, alice)
    post(reviewer, f"/mailboxes/{other.pk}/texts/", **SHORTER)
    of_other = ReviewText.objects.get()
    bobs = Reviewer.signed_in(bob)
    assert post(bobs, f"/mailboxes/{mailbox.pk}/texts/", **SHORTER).status_code == 403
    for address in (f"{other.pk}/texts/{of_other.pk}/", f"{mailbox.pk}/texts/{of_other.pk}/"):
        assert post(bobs, f"/mailboxes/{address}", **SHORTER).status_code == 404
        assert post(bobs, f"/mailboxes/{address}remove/").status_code == 404
    assert ReviewText.objects.count() == 1
    page = text_of(reviewer.client.get(f"/actions/{api.propose()}/?text={of_other.pk}"))
    assert note(page, "back-note") == ""
