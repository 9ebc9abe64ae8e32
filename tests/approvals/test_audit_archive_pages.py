"""Pages say that older events are in the archive, and programs get no wrong number."""

import re

import pytest

from accounts.models import Mailbox, User
from approvals.audit import chain
from approvals.models import PendingAction
from tests.approvals.audit_archive import archived, home, notified, say, sent
from tests.approvals.audit_pages import page
from tests.approvals.audit_pages import verified as pressed
from tests.conftest import Api
from tests.support.people.browser import browser

__all__ = ["home", "sent"]
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]


def test_pages_say_that_older_events_are_archived(
    sent: PendingAction, mailbox: Mailbox, alice: User, api: Api
) -> None:
    say(mailbox)
    assert "archive" not in page(alice)
    assert "archive" not in history(alice, sent)
    archived()
    assert "4 older events are in the archive" in page(alice)
    assert "4 older events are in the archive" in page(alice, "?event=approved")
    assert "Older events of this mail are in the archive" in history(alice, sent)
    told = pressed(alice)
    assert "The newest event is unchanged." in told
    assert "4 older events are in the archive" in told
    assert "that takes too long" not in told
    assert "sequence" not in api.get(f"/actions/{sent.pk}").json()


def test_page_of_security_events_says_it_too(alice: User, mailbox: Mailbox) -> None:
    alice.is_staff = True
    alice.save()
    for _ in range(3):
        chain.record(mailbox=None, of_people=True, event="signed_in", actor=f"user:{alice.pk}")
    notified()
    archived()
    text = browser(alice).get("/audit/security/").content.decode()
    assert re.search(r"\d older events? (is|are) in the archive", text)


def history(person: User, action: PendingAction) -> str:
    return str(browser(person).get(f"/actions/{action.pk}/?view=history").content.decode())
