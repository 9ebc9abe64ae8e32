"""The export of the audit page: enough to verify the chain, and safe in a spreadsheet."""

import csv
import gc
import json
import re
from io import StringIO
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.test import AsyncClient

from accounts.infra import streams
from accounts.models import ApiToken, Mailbox, Membership, Role, User
from approvals.audit import chain, log
from approvals.models import AuditChain, PendingAction
from approvals.pages.mailboxes import members
from tests.approvals.audit_pages import exported, own_heads, sent
from tests.conftest import make_api, make_mailbox
from tests.support.people.browser import browser
from tests.support.servers.memory import MemoryServer

__all__ = ["own_heads", "sent"]
pytestmark = pytest.mark.django_db(transaction=True)


def test_export_holds_all_that_verification_needs(
    sent: PendingAction, alice: User, mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "BATCH", 3)
    previous = "0" * 64
    lines = exported(alice)
    for number, line in enumerate(lines, start=1):
        assert (line["sequence"], line["previous"]) == (number, previous)
        said = [
            line[name]
            for name in (
                "chain",
                "sequence",
                "at",
                "event",
                "action_id",
                "actor",
                "data",
                "previous",
            )
        ]
        assert (
            chain.keyed_hash(json.dumps(said, sort_keys=True, separators=(",", ":")))
            == line["hash"]
        )
        previous = line["hash"]
    assert previous == AuditChain.objects.get(mailbox=mailbox).head
    assert [line["who"] for line in lines][:2] == [
        "agent, a token of alice@lovelace.example",
        alice.email,
    ]

    answer = browser(alice).get("/audit/export/?event=approved")
    assert re.fullmatch(
        r'attachment; filename="mailhub-audit-[\d-]+\.csv"', answer["Content-Disposition"]
    )
    [row] = csv.DictReader(StringIO(b"".join(answer).decode()))
    told = {**lines[1], "sequence": "2", "data": json.dumps(lines[1]["data"], sort_keys=True)}
    assert row == told
    assert browser(alice).get("/audit/export/?format=exe").status_code == 404


@pytest.mark.parametrize("end", ["removed", "inactive"])
def test_export_ends_with_the_right_and_has_no_later_event(
    sent: PendingAction,
    alice: User,
    bob: User,
    mailbox: Mailbox,
    monkeypatch: pytest.MonkeyPatch,
    end: str,
) -> None:
    """The reader takes one piece, and the next ones later."""
    monkeypatch.setattr(log, "BATCH", 2)
    Membership.objects.filter(user=bob, mailbox=mailbox).update(role=Role.MANAGER)
    answers: list[Any] = [
        browser(person).get("/audit/export/?format=jsonl") for person in (alice, bob)
    ]
    allowed, refused = [iter(answer.streaming_content) for answer in answers]
    before = [next(allowed), next(refused)]
    if end == "removed":
        members.remove_member(mailbox=mailbox, person=alice, user_id=bob.pk)
    else:
        User.objects.filter(pk=bob.pk).update(is_active=False)
    chain.record(mailbox=mailbox, event="paused", actor="worker", reason="later")

    whole = b"".join([before[0], *allowed])
    assert b"outcome_accepted" in whole
    assert b"later" not in whole
    with pytest.raises(log.ExportEnded):
        next(refused)


def test_export_has_a_deadline_and_a_place(
    sent: PendingAction, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "OF_PERSON", 1)
    window = browser(alice)
    first = window.get("/audit/export/")
    refused = window.get("/audit/export/", follow=True)
    assert b"Too many downloads are open" in refused.content
    assert len(b"".join(first).splitlines()) > 4
    del first
    gc.collect()
    monkeypatch.setattr(log, "EXPORT_SECONDS", -1)
    with pytest.raises(log.ExportEnded):
        b"".join(window.get("/audit/export/"))


def test_no_cell_of_the_export_is_a_formula(alice: User, server: MemoryServer) -> None:
    mailbox = make_mailbox("+sum@lovelace.example", server, alice)
    for name in ("=1+1", "-1", "@sum", "+1", "\t=1", "\uff1d1+1"):
        make_api(alice, mailbox, name=name)
        chain.record(
            mailbox=mailbox, event="paused", actor=f"token:{ApiToken.objects.get(name=name).pk}"
        )

    answer = browser(alice).get("/audit/export/")
    rows = list(csv.DictReader(StringIO(b"".join(answer).decode())))

    assert len(rows) == 6
    assert {row["mailbox"] for row in rows} == {"'+sum@lovelace.example"}
    assert not [
        cell
        for row in rows
        for cell in row.values()
        if cell.startswith(("=", "+", "-", "@", "\t", "\uff1d"))
    ]


def test_export_streams_over_asgi_too(
    sent: PendingAction, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "BATCH", 2)

    async def pieces() -> list[bytes]:
        client = AsyncClient()
        await client.aforce_login(alice)
        answer: Any = await client.get("/audit/export/?format=jsonl")
        return [piece async for piece in answer]

    got = async_to_sync(pieces)()
    assert [len(piece.splitlines()) for piece in got if piece] == [2, 2]
