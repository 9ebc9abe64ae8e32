"""The button of the audit page that verifies the chain, and its findings."""

from typing import Any

import pytest

from accounts.models import Mailbox, User
from approvals.audit import anchors, chain
from approvals.audit import audit_views as view
from approvals.models import AuditChain, AuditEvent, PendingAction
from tests.approvals.audit_pages import by_force, exported, many, own_heads, page, sent, verified
from tests.conftest import make_mailbox
from tests.support.people.browser import browser
from tests.support.servers.memory import MemoryServer

__all__ = ["own_heads", "sent"]
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize(
    ("sequence", "change", "said"),
    [
        (2, {"actor": "user:0"}, "Event 2 was altered: it does not match its hash"),
        (2, None, "Event 2 was removed: 1 event is missing"),
        (4, None, "Event 4 and all later events were cut off: 1 event is missing at the end"),
    ],
)
def test_button_names_the_broken_chain_and_the_problem(
    sent: PendingAction,
    alice: User,
    server: MemoryServer,
    sequence: int,
    change: dict[str, Any] | None,
    said: str,
) -> None:
    second = make_mailbox("second@lovelace.example", server, alice)
    many(second, 5)
    empty = make_mailbox("third@lovelace.example", server, alice)
    assert verified(alice).count("events are unchanged") == 2
    event = AuditEvent.objects.filter(chain__mailbox__address=alice.email, sequence=sequence)
    by_force(lambda: event.update(**change) if change else event.delete())

    text = verified(alice)

    assert f"{alice.email} These events were changed." in text
    assert said in text
    assert f"{second.address} unchanged All 5 events are unchanged" in text
    assert f"{empty.address} There are no events yet" in text


def test_button_finds_problems_only_external_heads_show(
    sent: PendingAction, alice: User, foreign_mailbox: Mailbox, charlie: User
) -> None:
    many(foreign_mailbox, 1)
    anchors.anchor()

    def written_anew() -> None:
        previous = "0" * 64
        for link in AuditEvent.objects.filter(chain=foreign_mailbox.pk):
            link.actor, link.previous = "user:0", previous
            link.hash = previous = chain.hash_of(link)
            link.save()
        AuditChain.objects.filter(mailbox=foreign_mailbox).update(head=previous)

    by_force(written_anew)

    assert "Event 1 was rewritten: another event was anchored here" in verified(charlie)
    assert "All 4 events are unchanged" in verified(alice)


def test_unreadable_head_line_is_reported_and_harmless(
    sent: PendingAction, alice: User, charlie: User
) -> None:
    anchors.anchor()
    with chain.heads_file().open("a") as file:
        file.write('{"half a line\n[]\n')
    User.objects.filter(pk=charlie.pk).update(is_staff=True)

    assert "All 4 events are unchanged" in verified(alice)
    assert verified(charlie).count("mailhub did not write a line of the anchor file") == 2


def test_newest_events_of_a_long_chain_are_verified(
    alice: User, mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view, "AT_MOST", 5)
    many(mailbox, 4)
    anchors.anchor()
    many(mailbox, 8)
    said = "The newest 5 events are unchanged. 7 older events were not checked"

    assert said in verified(alice)
    by_force(lambda: AuditEvent.objects.filter(sequence=3).update(actor="user:0"))
    assert said in verified(alice)
    by_force(lambda: AuditEvent.objects.filter(sequence=8).delete())
    assert "Event 8 was removed: 1 event is missing" in verified(alice)


def test_get_request_verifies_and_changes_nothing(sent: PendingAction, alice: User) -> None:
    anchored = chain.heads_file().read_text()
    assert browser(alice).get("/audit/verify/").status_code == 405
    page(alice)
    exported(alice)
    assert AuditEvent.objects.count() == 4
    assert chain.heads_file().read_text() == anchored
