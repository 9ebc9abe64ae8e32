"""A reviewer edits an action; the proposer and other reviewers see the changes."""

import html
import re
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.db import IntegrityError, transaction
from django.db.models.functions import Now
from django.utils import timezone

from accounts.access.caller import Caller
from accounts.infra.problems import Problem
from accounts.models import Mailbox, Membership, Role, User
from approvals.core.types import FilesGiven, GivenFile
from approvals.gate import decide as verdicts
from approvals.gate import revise, rulings
from approvals.gate.revise import changes_since
from approvals.models import Attempt, AuditEvent, Blob, Decision, PendingAction, Revision
from tests.approvals.conftest import approve
from tests.approvals.kinds import Script, handed_over
from tests.approvals.revisions import ask_back, edit, review
from tests.conftest import HELLO, Api, Reviewer
from tests.support.concurrently import all_at_once
from tests.support.servers.memory import MemoryServer
from tests.support.work import work

pytestmark = pytest.mark.django_db(transaction=True)


def test_edited_mail_leaves_edited_and_the_agent_is_notified(
    api: Api, alice: User, server: MemoryServer
) -> None:
    action_id = api.propose()

    edit(
        action_id,
        alice,
        subject="Hello again",
        to="mira@northwind.example\r\nnoah@northwind.example",
    )
    assert review(api, action_id) == {
        "by": str(alice),
        "verdict": "edited",
        "changed": ["to", "subject"],
    }
    approve(action_id, alice)
    work()

    assert [envelope.recipients for envelope in server.ledger] == [
        ("mira@northwind.example", "noah@northwind.example")
    ]
    assert b"Subject: Hello again" in server.ledger[0].source
    action = PendingAction.objects.get()
    assert action.message_id.encode() in server.ledger[0].source
    assert review(api, action_id) == {
        "by": str(alice),
        "verdict": "approved",
        "changed": ["to", "subject"],
    }
    assert [
        (event.event, event.data.get("changed"))
        for event in AuditEvent.objects.filter(event="edited")
    ] == [("edited", ["to", "subject"])]


@pytest.mark.fault(8)
def test_page_from_before_an_edit_cannot_approve(api: Api, alice: User, reviewer: Reviewer) -> None:
    action_id = api.propose()
    shown = PendingAction.objects.get()
    edit(action_id, alice, body="Hello Mira,\nuntil Friday.\nAlice")

    answer = reviewer.decide(action_id, "approve", digest=shown.digest, revision=shown.revision)

    assert answer.status_code == 409
    assert b"until Friday" in answer.content
    assert not Decision.objects.exists()
    assert PendingAction.objects.get().status == "pending"
    changes = changes_since(PendingAction.objects.get(), 1)
    assert [
        (change.name, [(piece.sort, piece.text) for piece in change.pieces]) for change in changes
    ] == [
        (
            "body",
            [
                ("same", "Hello Mira,\nuntil "),
                ("removed", "Thursday"),
                ("added", "Friday"),
                ("same", ".\nAlice"),
            ],
        ),
    ]


@pytest.mark.fault(8)
@pytest.mark.parametrize("verdict", ["reject", "cancel"])
def test_page_from_before_an_edit_cannot_reject_or_withdraw(
    api: Api, alice: User, reviewer: Reviewer, verdict: str
) -> None:
    action_id = api.propose()
    shown = PendingAction.objects.get()
    form = (
        reviewer.page(action_id)
        .content.decode()
        .partition(f'data-action="{verdict}"')[2]
        .partition("</form>")[0]
    )
    assert f'name="digest" value="{shown.digest}"' in form
    edit(action_id, alice, subject="Changed")

    answer = reviewer.decide(action_id, verdict, digest=shown.digest, revision=shown.revision)

    assert answer.status_code == 409
    assert PendingAction.objects.get().status == "pending"
    assert reviewer.decide(action_id, verdict).status_code == 302
    assert PendingAction.objects.get().is_final


def test_unchanged_form_is_no_revision(api: Api, alice: User) -> None:
    action_id = api.propose()

    edit(
        action_id,
        alice,
        subject=HELLO["subject"],
        body=HELLO["body"].replace("\n", "\r\n"),
        to=HELLO["to"][0],
    )

    assert PendingAction.objects.get().revision == 1
    assert review(api, action_id) is None


@pytest.mark.fault(49, 50)
@pytest.mark.parametrize(
    ("changes", "field"),
    [
        pytest.param({"to": ""}, "to", id="nobody"),
        pytest.param({"to": '"a@good.example" <x@evil.example>'}, "to", id="two-in-one"),
        pytest.param({"cc": "mira@northwind.example"}, "to", id="twice"),
        pytest.param({"subject": "Hello\r\nBcc: x@evil.example"}, "subject", id="line-end"),
        pytest.param({"subject": "Hello\u2028again"}, "subject", id="line-separator"),
        pytest.param({"subject": "=?utf-8?q?a?="}, "subject", id="encoded-word"),
        pytest.param({"subject": ""}, "subject", id="no-subject"),
        pytest.param({"body": ""}, "body", id="no-body"),
        pytest.param({"body": "a\0b"}, "body", id="nul"),
        pytest.param({"body_type": "rtf"}, "body_type", id="no-such-type"),
        pytest.param({"from": "ceo@lovelace.example"}, "from", id="no-field"),
        pytest.param({"attachments": "a"}, "attachments", id="no-files"),
        pytest.param({"attachments": FilesGiven(kept=("0" * 64,))}, "attachments", id="foreign-file"),
        pytest.param(
            {"attachments": FilesGiven(added=(GivenFile(name="a\u202efdp.exe", type="a/b", content=b""),))},
            "attachments", id="rlo-name",
        ),
    ],
)  # fmt: skip
def test_unsendable_value_cannot_be_edited_in(
    api: Api, alice: User, changes: Any, field: str
) -> None:
    action_id = api.propose()

    with pytest.raises(Problem) as refused:
        edit(action_id, alice, **changes)

    assert refused.value.code == "invalid_input"
    assert {error.field for error in refused.value.errors} == {field}
    assert PendingAction.objects.get().revision == 1


def test_files_are_kept_removed_and_added(api: Api, alice: User, server: MemoryServer) -> None:
    given = [
        {"name": f"{name}.txt", "type": "text/plain", "content_base64": "aGVsbG8="} for name in "a"
    ]
    given += [{"name": "b.txt", "type": "text/plain", "content_base64": "d29ybGQ="}]
    action_id = api.propose(attachments=given)
    fields = revise.edit_fields(PendingAction.objects.get())
    held = {file.name: file.key for field in fields for file in field.files}

    new = GivenFile(name="c.txt", type="text/plain", content=b"!")
    edit(action_id, alice, attachments=FilesGiven(kept=(held["b.txt"],), added=(new,)))
    approve(action_id, alice)
    work()

    payload = PendingAction.objects.get().current.payload
    assert [seal["name"] for seal in payload["attachments"]] == ["b.txt", "c.txt"]
    assert b'filename="c.txt"' in server.ledger[0].source
    assert b'filename="a.txt"' not in server.ledger[0].source
    assert Blob.objects.count() == 2


def test_one_of_two_equal_files_can_be_removed(api: Api, reviewer: Reviewer) -> None:
    given = [{"name": name, "content_base64": "aGVsbG8="} for name in ("a.txt", "b.txt", "b.txt")]
    action_id = api.propose(attachments=given)
    page = reviewer.client.get(f"/actions/{action_id}/edit/").content.decode()
    ticked = [html.unescape(each) for each in re.findall(r'value="([0-9a-f]{64}:[^"]+)"', page)]
    assert len(ticked) == len(given)

    for left in (2, 1):
        ticked = ticked[1:]
        assert reviewer.decide(action_id, "edit", attachments=["", *ticked]).status_code == 302
        payload = PendingAction.objects.get().current.payload
        assert [seal["name"] for seal in payload["attachments"]] == ["b.txt"] * left


def test_html_of_a_reviewer_is_cleaned_like_that_of_an_agent(api: Api, alice: User) -> None:
    action_id = api.propose()

    edit(action_id, alice, body_type="html", body="<p>Hi <script>alert(1)</script><b>Mira</b></p>")

    current = PendingAction.objects.get().current
    assert current.payload["html"] == "<p>Hi <b>Mira</b></p>"
    assert current.payload["text"] == "Hi Mira"
    assert "content_removed" in [warning["code"] for warning in current.preview["warnings"]]


def test_html_becomes_plain_text_only_by_choice(api: Api, alice: User) -> None:
    action_id = api.propose(body="<p>Hi <b>Mira</b></p>", body_type="html")

    edit(action_id, alice, body_type="text", body="<p>Hi <b>Mira</b></p>")

    payload = PendingAction.objects.get().current.payload
    assert (payload["text"], payload["html"]) == ("Hi Mira", None)


@pytest.mark.parametrize("who", ["viewer", "stranger"])
def test_only_deciders_edit_and_ask_back(
    api: Api, mailbox: Mailbox, charlie: User, who: str
) -> None:
    if who == "viewer":
        Membership.objects.create(mailbox=mailbox, user=charlie, role=Role.PROPOSER)
    action_id = api.propose()

    with pytest.raises(Problem) as edited:
        edit(action_id, charlie, subject="x")
    with pytest.raises(Problem) as asked:
        ask_back(action_id, charlie, "no")

    assert (edited.value.code, asked.value.code) == ("forbidden", "forbidden")

    assert AuditEvent.objects.filter(event__in=("edit_refused", "ask_back_refused")).count() == 2


@pytest.mark.fault(13)
def test_one_of_four_decisions_at_once_wins(api: Api, alice: User, server: MemoryServer) -> None:
    api.propose()
    shown = PendingAction.objects.get()
    seal: dict[str, Any] = {
        "action_id": shown.pk,
        "digest": shown.digest,
        "revision": shown.revision,
    }
    person = {"person": alice}

    def tried(decide: Any, **more: Any) -> Any:
        def one() -> str:
            try:
                decide(**seal, **more)
            except Problem as problem:
                return problem.code
            return "won"

        return one

    answers = all_at_once(
        [
            tried(revise.edit, **person, changes={"subject": "Changed"}),
            tried(verdicts.approve, **person),
            tried(verdicts.reject, **person),
            tried(verdicts.cancel, caller=Caller(user=alice, surface="web")),
        ]
    )

    work()
    action = PendingAction.objects.get()
    assert answers.count("won") == 1 or (answers.count("won") == 2 and action.status == "cancelled")
    assert len(server.ledger) == (1 if action.status == "succeeded" else 0)
    assert (action.status == "succeeded") == (answers[1] == "won" and answers[3] != "won")


def test_possibly_sent_mail_cannot_be_edited(
    api: Api, alice: User, script: Script, settings: Any
) -> None:
    """Refuse the edit because a lookup of its id would take the first content for the edited."""
    settings.MAILHUB_UNDO_SECONDS = 60
    script.instead = handed_over
    action_id = api.propose()
    approve(action_id, alice)
    PendingAction.objects.update(not_before=Now())
    work()
    rulings.resolve(
        action_id=PendingAction.objects.get().pk, person=alice, ruling="not_sent", fence=1
    )
    verdicts.undo(action_id=PendingAction.objects.get().pk, person=alice)
    assert Attempt.objects.get().evidence == "person"

    with pytest.raises(Problem) as refused:
        edit(action_id, alice, subject="Changed")

    assert refused.value.code == "conflict"


def test_each_person_has_their_own_last_seen_revision(api: Api, alice: User, bob: User) -> None:
    action_id = api.propose()
    looks = {person: Reviewer.signed_in(person) for person in (alice, bob)}

    def told(person: User, *, revision: int | None = None) -> bool:
        """Return True if the page shows a change; its script then reports `revision` as seen."""
        page = looks[person].page(action_id)
        if revision is not None:
            token = looks[person].client.cookies["csrftoken"].value
            its = {"csrfmiddlewaretoken": token, "revision": str(revision)}
            assert (
                looks[person].client.post(f"/actions/{action_id}/presence/", its).status_code == 200
            )
        return b"This changed since you last looked at it." in page.content

    assert not told(alice, revision=1)
    edit(action_id, bob, subject="Changed")

    assert not told(bob, revision=2)
    assert told(alice)  # a request that only fetches the page does not mark the change as seen
    assert told(alice, revision=2)
    assert not told(alice, revision=1)  # a window with an old revision
    assert not told(alice, revision=99)


@pytest.mark.fault(18)
def test_revisions_and_replacements_are_never_rewritten(api: Api, alice: User) -> None:
    first = api.propose()
    second = api.propose(replaces=first, body="Better.")
    edit(second, alice, subject="Changed")

    with pytest.raises(IntegrityError, match="revision_final"), transaction.atomic():
        Revision.objects.filter(number=2).update(changed=[])
    with pytest.raises(IntegrityError, match="action_frozen"), transaction.atomic():
        PendingAction.objects.filter(pk=second).update(replaces=None)


def test_reviewer_sets_and_clears_the_send_time(
    api: Api, alice: User, reviewer: Reviewer, server: MemoryServer
) -> None:
    action_id = api.propose()
    later = timezone.now() + timedelta(days=3)
    edit(action_id, alice, send_at=later.isoformat())
    assert review(api, action_id)["changed"] == ["send_at"]
    assert f"{later.astimezone(UTC):%Y-%m-%d %H:%M} UTC" in [
        piece.text for piece in changes_since(PendingAction.objects.get(), 1)[0].pieces
    ]
    reviewer.decide(action_id, "approve")
    work()
    assert server.ledger == []
    assert PendingAction.objects.get().not_before == later

    action_id = api.propose(send_at=later.isoformat(), subject="Another")
    edit(action_id, alice, send_at="")
    reviewer.decide(action_id, "approve")
    work()
    assert [envelope.source.count(b"Subject: Another") for envelope in server.ledger] == [1]


@pytest.mark.parametrize(
    ("form", "says"),
    [
        ("tomorrow", "Input should be a valid datetime"),
        ("%Y-%m-%dT%H:%M", "is more than 30 days away"),
        ("0001-01-01T00:00", "Input should be a valid datetime"),
    ],
)
def test_invalid_send_time_is_shown_again(
    api: Api, reviewer: Reviewer, form: str, says: str
) -> None:
    action_id = api.propose()
    # Not among the parameters: each process of the run must give the tests the same names.
    typed = f"{timezone.now() + timedelta(days=40):{form}}"

    answer = reviewer.decide(action_id, "edit", send_at=typed, zone="Europe/Berlin")

    assert answer.status_code == 422
    assert says in answer.content.decode()
    assert f'value="{typed}"' in answer.content.decode()
    assert PendingAction.objects.get().revision == 1


def test_typed_send_time_is_in_the_zone_of_the_page(api: Api, reviewer: Reviewer) -> None:
    day = timezone.now() + timedelta(days=3)
    moment = datetime(day.year, day.month, day.day, 9, 0, 30, tzinfo=ZoneInfo("Europe/Berlin"))
    action_id = api.propose(send_at=moment.isoformat())
    typed = f"{moment:%Y-%m-%dT%H:%M}"

    reviewer.decide(action_id, "edit", send_at=typed, zone="Europe/Berlin")
    assert PendingAction.objects.get().revision == 1, "the same minute is no change"
    reviewer.decide(action_id, "edit", send_at=f"{typed[:-2]}45", zone="Europe/Berlin")

    action = PendingAction.objects.get()
    assert action.send_at == moment.replace(minute=45, second=0)
    assert datetime.fromisoformat(action.current.payload["send_at"]) == action.send_at


def test_send_time_changes_only_with_a_revision(api: Api) -> None:
    api.propose()
    with pytest.raises(IntegrityError, match="action_send_time"), transaction.atomic():
        PendingAction.objects.update(send_at=timezone.now())
