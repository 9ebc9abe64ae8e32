"""Comments, mentions and assignments of reviewers: for members only, and without effect on a decision."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from accounts.models import Mailbox, Membership, Role, User
from approvals.gate import overdue
from approvals.models import Assignment, AuditEvent, Comment, Notification, PendingAction
from approvals.outbound.notifications import outbox
from tests.approvals.review_pages import text_of
from tests.conftest import Api, Reviewer

pytestmark = pytest.mark.django_db(transaction=True)
SECRET = "The price is 4711, is that right?"


@pytest.fixture
def vera(mailbox: Mailbox) -> Reviewer:
    person = User.objects.create_user("vera@lovelace.example", first_name="Vera")
    Membership.objects.create(mailbox=mailbox, user=person, role=Role.VIEWER)
    return Reviewer.signed_in(person)


def events(name: str) -> list[dict[str, Any]]:
    return list(AuditEvent.objects.filter(event=name).order_by("pk").values_list("data", flat=True))


def notified(stage: str) -> list[str]:
    found = Notification.objects.filter(stage=stage).order_by("pk")
    return list(found.values_list("user__email", flat=True))


def add_channel(settings: Any, *people: User) -> None:
    settings.SENDS_MAIL = True
    User.objects.filter(pk__in=[each.pk for each in people]).update(
        address_proven_at=timezone.now()
    )
    outbox.offer_email({each.pk for each in people})


def test_members_read_a_comment_and_nobody_else(
    api: Api, reviewer: Reviewer, vera: Reviewer, charlie: User, foreign_mailbox: Mailbox
) -> None:
    action = api.propose()
    answer = reviewer.decide(action, "comments", text=SECRET)
    assert answer["Location"] == f"/actions/{action}/#comments"
    assert SECRET in text_of(vera.page(action))
    assert SECRET in text_of(reviewer.client.get(f"/actions/{action}/peek/"))
    assert Reviewer.signed_in(charlie).page(action).status_code == 404
    for said in (api.get(f"/actions/{action}"), api.get("/actions")):
        assert "4711" not in said.content.decode()


@pytest.mark.parametrize("form", ["comments", "assign"])
def test_viewer_and_stranger_may_not_discuss(
    form: str, api: Api, vera: Reviewer, charlie: User, foreign_mailbox: Mailbox
) -> None:
    action = api.propose()
    said = {"text": "Mine", "person": str(vera.user.pk)}
    assert vera.decide(action, form, **said).status_code == 403
    assert Reviewer.signed_in(charlie).decide(action, form, **said).status_code in (403, 404)
    assert not Comment.objects.exists()
    assert not Assignment.objects.exists()


def test_comment_is_encrypted_and_the_audit_has_no_text(api: Api, reviewer: Reviewer) -> None:
    reviewer.decide(api.propose(), "comments", text=SECRET)
    with connection.cursor() as cursor:
        cursor.execute("SELECT text FROM approvals_comment")
        assert "4711" not in str(cursor.fetchall())
    (said,) = events("commented")
    assert said == {"comment": Comment.objects.get().pk, "mentioned": []}


def test_comment_changes_no_decision(api: Api, reviewer: Reviewer) -> None:
    action = api.propose()
    before = PendingAction.objects.filter(pk=action).values().get()
    reviewer.decide(action, "comments", text=SECRET)
    reviewer.decide(action, "assign", person=str(reviewer.user.pk))
    assert PendingAction.objects.filter(pk=action).values().get() == before
    assert reviewer.decide(action, "approve").status_code == 302


def test_mention_notifies_exactly_that_member(
    api: Api, reviewer: Reviewer, bob: User, vera: Reviewer, alice: User, settings: Any
) -> None:
    add_channel(settings, alice, bob, vera.user)
    reviewer.decide(api.propose(), "comments", text="Is that right, @vera? Not bob@x.example.")
    assert notified("mentioned") == [vera.user.email]
    (said,) = events("commented")
    assert said["mentioned"] == [vera.user.pk]


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("@nobody, look", "“@nobody,” is no member of this mailbox."),
        ("@charlie", "“@charlie” is no member of this mailbox."),
        ("@Sam", "“@Sam” means several members."),
        ("  \n", "Write a comment first."),
        ("x" * 2001, "The comment is too long."),
    ],
)
def test_refused_comment_stays_in_the_form(
    text: str, refusal: str, api: Api, reviewer: Reviewer, mailbox: Mailbox, charlie: User
) -> None:
    for number in range(2):
        sam = User.objects.create_user(f"s{number}@lovelace.example", first_name="Sam")
        Membership.objects.create(mailbox=mailbox, user=sam, role=Role.APPROVER)
    answer = reviewer.decide(api.propose(), "comments", text=text)
    assert answer.status_code == 422
    page = text_of(answer)
    assert refusal in page
    assert text.strip()[:40] in page
    assert not Comment.objects.exists()


def test_assigned_person_is_named_and_notified_once(
    api: Api, reviewer: Reviewer, bob: User, alice: User, settings: Any
) -> None:
    add_channel(settings, alice, bob)
    action = api.propose()
    for _ in range(2):
        reviewer.decide(action, "assign", person=str(bob.pk))
    assert notified("assigned") == [bob.email]
    assert f"assigned to <bdi>{bob}</bdi>" in text_of(reviewer.client.get("/"))
    assert "Assigned to you." in text_of(Reviewer.signed_in(bob).page(action))
    for query, rows in (("for:bob", 1), ("for:alice", 0)):
        assert text_of(reviewer.client.get(f"/?q={query}")).count('id="row-') == rows
    reviewer.decide(action, "assign", person="")
    assert "Assigned to nobody." in text_of(reviewer.page(action))
    assert [len(events(name)) for name in ("assigned", "unassigned")] == [1, 1]
    assert reviewer.decide(action, "approve").status_code == 302


def test_only_people_who_may_decide_are_assigned(
    api: Api, reviewer: Reviewer, bob: User, vera: Reviewer, charlie: User
) -> None:
    action = api.propose()
    for person in (vera.user.pk, charlie.pk, 999_999, "x"):
        assert reviewer.decide(action, "assign", person=str(person)).status_code == 422
    reviewer.decide(action, "assign", person=str(bob.pk))
    Membership.objects.filter(user=bob).update(role=Role.VIEWER)
    assert "Assigned to nobody." in text_of(reviewer.page(action))
    reviewer.decide(action, "reject")
    assert reviewer.decide(action, "assign", person=str(reviewer.user.pk)).status_code == 409


def test_comments_are_removed_with_the_content(api: Api, reviewer: Reviewer, settings: Any) -> None:
    action = api.propose()
    reviewer.decide(action, "comments", text=SECRET)
    reviewer.decide(action, "assign", person=str(reviewer.user.pk))
    reviewer.decide(action, "reject")
    old = timezone.now() - timedelta(days=settings.MAILHUB_RETENTION_DAYS + 1)
    PendingAction.objects.update(created_at=old, finished_at=old)
    overdue.purge()
    assert not Comment.objects.exists()
    assert not Assignment.objects.exists()
    assert reviewer.decide(action, "comments", text="Too late").status_code == 409


def test_open_page_gets_new_comments_only(
    api: Api, reviewer: Reviewer, vera: Reviewer, charlie: User, foreign_mailbox: Mailbox
) -> None:
    action = api.propose()
    reviewer.decide(action, "comments", text=SECRET)

    def ask(window: Reviewer, shown: str) -> Any:
        return window.decide(action, "presence", revision="1", comments=shown)

    assert SECRET in ask(vera, "0").json()["comments"]
    for shown in ("1", "", "x", "9" * 30):
        assert "comments" not in ask(vera, shown).json()
    assert ask(Reviewer.signed_in(charlie), "0").status_code in (403, 404)
