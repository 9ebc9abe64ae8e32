"""Stored notes of prepared drafts: read as a whole and written back unchanged, or refused."""

from typing import Any

import pytest

from approvals.models import PendingAction, Preparation
from tests.conftest import Api, Reviewer
from tests.support.servers.memory import MemoryServer
from tests.support.work import work
from tools.providers.notes import DraftNotes
from tools.stored import Unreadable

MARKED = {"marker": "<1@lovelace.example>"}
AT_GMAIL = {**MARKED, "draft": "r-1", "message": "18c"}
UNFINISHED = {**MARKED, "draft": "AAMk=", "source": "5" * 64}
AT_MICROSOFT = {**UNFINISHED, "version": "CQAAABYA", "folder": "AQMk"}
WITHOUT_KEY: dict[str, Any] = {**UNFINISHED, "version": None, "folder": None}
STORED = [{}, MARKED, AT_GMAIL, UNFINISHED, AT_MICROSOFT, WITHOUT_KEY]


@pytest.mark.parametrize("stored", STORED)
def test_stored_notes_are_written_back_unchanged(stored: dict[str, Any]) -> None:
    notes = DraftNotes.from_json(stored)

    assert notes.as_json() == stored
    assert notes.is_empty is (not stored)
    assert notes.is_compared is ("version" in stored)


@pytest.mark.parametrize("stored", STORED)
def test_sighting_is_added_and_removed_again(stored: dict[str, Any]) -> None:
    notes = DraftNotes.from_json(stored)

    assert notes.with_sighting().as_json() == {**stored, "seen_unsent": True}
    assert notes.with_sighting().without_sighting() == notes
    assert notes.with_sighting().without_sighting().as_json() == stored


def test_comparison_adds_version_and_folder() -> None:
    notes = DraftNotes.from_json(UNFINISHED).with_version("CQAAABYA", "AQMk")

    assert notes.as_json() == AT_MICROSOFT


@pytest.mark.parametrize("stored", [{"draft": 1}, {**AT_GMAIL, "thread": "18c"}])
def test_notes_with_a_wrong_member_are_refused(stored: dict[str, Any]) -> None:
    with pytest.raises(Unreadable):
        DraftNotes.from_json(stored)


@pytest.mark.django_db(transaction=True)
def test_nothing_is_sent_while_the_notes_cannot_be_read(
    api: Api, reviewer: Reviewer, server: MemoryServer
) -> None:
    reviewer.decide(api.propose(), "approve")
    action = PendingAction.objects.get()
    newer = {**AT_GMAIL, "thread": "18c"}
    Preparation.objects.create(action=action, digest=action.digest, notes=newer)

    work()

    action.refresh_from_db()
    assert action.error
    assert (action.status, action.error["code"]) == ("approved", "unreadable")
    assert Preparation.objects.get().notes == newer
    assert server.ledger == []
