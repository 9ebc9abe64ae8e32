"""The list of mailboxes: which pauses it shows, and its bounded work."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from accounts.models import Mailbox, User
from approvals.gate.pauses import switch
from tests.conftest import HELLO, make_api, make_mailbox, problem_of
from tests.support.servers.memory import MemoryServer

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def mailboxes(alice: User, server: MemoryServer) -> list[Mailbox]:
    return [make_mailbox(f"team{n}@lovelace.example", server, alice) for n in range(3)]


def test_pause_is_shown_for_its_mailbox_or_for_all(
    alice: User, bob: User, mailboxes: list[Mailbox], server: MemoryServer
) -> None:
    other = make_mailbox("other@lovelace.example", server, bob)
    api = make_api(alice, *mailboxes[:2])

    def listed() -> dict[str, str]:
        found = api.tool("list_mailboxes").json()["mailboxes"]
        return {row["address"].partition("@")[0]: row["status"] for row in found}

    switch.pause(mailbox=mailboxes[1], actor="command")
    switch.pause(mailbox=other, actor="command")
    assert listed() == {"team0": "active", "team1": "paused"}
    switch.pause(mailbox=None, actor="command")
    assert listed() == {"team0": "paused", "team1": "paused"}


def test_program_that_may_not_list_is_told_its_mailboxes(
    alice: User, bob: User, mailboxes: list[Mailbox], server: MemoryServer
) -> None:
    make_mailbox("other@lovelace.example", server, bob)
    api = make_api(alice, *mailboxes[:2], name="blind", scopes=["mail:propose"])
    assert api.tool("list_mailboxes").status_code == 403
    (error,) = problem_of(api.tool("send_email", **HELLO))["errors"]
    named = "must be one of team0@lovelace.example, team1@lovelace.example"
    assert error == {"field": "mailbox", "message": named}
    Mailbox.objects.update(status=Mailbox.Status.DISCONNECTED)
    assert "no connected mailbox" in problem_of(api.tool("send_email", **HELLO))["detail"]


def test_many_mailboxes_take_the_same_statements(alice: User, mailboxes: list[Mailbox]) -> None:
    counts = []
    for bound in (mailboxes[:1], mailboxes):
        api = make_api(alice, *bound, name=f"agent of {len(bound)}")
        api.tool("list_mailboxes")
        with CaptureQueriesContext(
            connection,
        ) as asked:
            assert len(api.tool("list_mailboxes").json()["mailboxes"]) == len(bound)
        counts.append(len(asked))

    assert counts[0] == counts[1]
