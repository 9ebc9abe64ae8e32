"""Reason and metadata of a proposal: kept with it, shown as a claim, found again, never sent."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction
from django.utils import timezone

from approvals.gate import notes, overdue
from approvals.models import AuditEvent, MetadataPair, PendingAction, ProposerNote, Revision
from tests.conftest import HELLO, Api, Reviewer, problem_of
from tests.support.servers.memory import MemoryServer
from tests.support.work import work

pytestmark = pytest.mark.django_db(transaction=True)

WHY = "The customer asked for <b>Thursday</b>."
PAIRS = {"order": "4711", "run.id": "a b"}


def test_approver_reads_the_reason_as_a_claim(api: Api, reviewer: Reviewer) -> None:
    action = api.propose(reason=WHY, metadata=PAIRS)
    for page in (
        reviewer.page(action).content.decode(),
        reviewer.client.get(f"/actions/{action}/peek/").content.decode(),
    ):
        assert "The customer asked for &lt;b&gt;Thursday&lt;/b&gt;." in page
        assert "mailhub has not checked this" in page
        assert "4711" in page
    assert (
        "mailhub has not checked"
        not in reviewer.page(api.propose(subject="Plain")).content.decode()
    )


def test_reason_does_not_leave_and_changes_no_digest(
    api: Api, reviewer: Reviewer, server: MemoryServer
) -> None:
    action = api.propose(reason=WHY, metadata=PAIRS)
    assert "4711" not in str(Revision.objects.get(action__pk=action).payload)
    reviewer.decide(action, "approve")
    work()
    (mail,) = server.ledger
    assert b"asked for" not in mail.source


def test_results_and_lists_hold_the_metadata(api: Api) -> None:
    action = api.propose(metadata=PAIRS)
    assert api.get(f"/actions/{action}").json()["metadata"] == PAIRS
    (listed,) = api.get("/actions").json()["items"]
    assert listed["metadata"] == PAIRS
    assert "metadata" not in api.get(f"/actions/{api.propose(subject='Plain')}").json()


def test_lists_are_filtered_by_metadata(api: Api) -> None:
    both = api.propose(subject="One", metadata=PAIRS)
    one = api.propose(subject="Two", metadata={"order": "4711"})
    api.propose(subject="Three", metadata={"order": "4712"})

    def found(query: str) -> list[str]:
        return [each["id"] for each in api.get(f"/actions?{query}").json()["items"]]

    assert found("metadata[order]=4711") == [one, both]
    assert found("metadata[order]=4711&metadata[run.id]=a%20b") == [both]
    assert found("metadata%5Border%5D=none") == []
    listed = api.tool("list_actions", metadata={"order": "4711"}).json()["items"]
    assert [each["id"] for each in listed] == [one, both]


@pytest.mark.parametrize(
    "given",
    [
        {"reason": ""},
        {"reason": "x" * 1001},
        {"reason": "approved\u202eon"},
        {"reason": "\x1b[0m"},
        {"metadata": {f"n{number}": "x" for number in range(17)}},
        {"metadata": {"order": "x" * 201}},
        {"metadata": {"n" * 41: "x"}},
        {"metadata": {"1": "x"}},
        {"metadata": {"order\n": "x"}},
        {"metadata": {"order": "a\nb"}},
        {"metadata": {"order": 4711}},
        {"metadata": {"order": ""}},
    ],
)
def test_wrong_words_are_refused(api: Api, given: dict[str, Any]) -> None:
    answer = api.tool("send_email", **HELLO, confirm=True, **given)
    assert problem_of(answer)["code"] == "invalid_input"
    assert not PendingAction.objects.exists()


def test_key_belongs_to_the_reason_and_the_metadata_too(api: Api) -> None:
    action = api.propose(key="k", reason=WHY, metadata=PAIRS)
    assert api.propose(key="k", reason=WHY, metadata=PAIRS) == action
    for other in ({"reason": WHY}, {"reason": "Else", "metadata": PAIRS}, {}):
        answer = api.tool("send_email", key="k", **HELLO, confirm=True, **other)
        assert problem_of(answer)["code"] == "idempotency_mismatch"


def test_database_keeps_what_was_said(api: Api) -> None:
    action = api.propose(reason=WHY, metadata=PAIRS)
    note, pair = ProposerNote.objects.get(), MetadataPair.objects.get(name="order")
    for change in (
        lambda: ProposerNote.objects.filter(pk=note.pk).update(reason="Else"),
        lambda: MetadataPair.objects.filter(pk=pair.pk).update(value="Else"),
        lambda: MetadataPair.objects.filter(pk=pair.pk).delete(),
        lambda: ProposerNote.objects.filter(pk=note.pk).delete(),
    ):
        with pytest.raises(DatabaseError), transaction.atomic():
            change()
    with connection.cursor() as cursor:
        cursor.execute("SELECT reason FROM approvals_proposernote")
        assert "Thursday" not in cursor.fetchone()[0]
    assert api.get(f"/actions/{action}").json()["metadata"] == PAIRS


def test_audit_proves_what_was_said_without_naming_it(api: Api) -> None:
    action = PendingAction.objects.get(pk=api.propose(reason=WHY, metadata=PAIRS))
    said = AuditEvent.objects.get(event="created").data
    assert said["said"] == notes.hash_of(action.pk, notes.remarks_of(action))
    assert "Thursday" not in str(said)


def test_words_go_with_the_content(api: Api, reviewer: Reviewer) -> None:
    action = api.propose(reason=WHY, metadata=PAIRS)
    reviewer.decide(action, "reject")
    PendingAction.objects.filter(pk=action).update(finished_at=timezone.now() - timedelta(days=999))
    overdue.purge()
    assert not ProposerNote.objects.exists()
    assert not MetadataPair.objects.exists()
    assert reviewer.page(action).status_code == 200
