"""The admin site is read-only: it decides and changes nothing, and shows no secret content."""

import pytest
from django.apps import apps
from django.contrib import admin
from django.test import Client

from accounts.models import User
from approvals.models import Decision, PendingAction
from tests.conftest import Api, Reviewer
from tests.support.work import work

pytestmark = pytest.mark.django_db(transaction=True)
LOOKED_AT = (
    "accounts/mailbox", "accounts/membership", "accounts/apitoken", "approvals/pendingaction", "approvals/decision",
    "approvals/approvalpolicy", "approvals/auditevent",
)  # fmt: skip


@pytest.fixture
def operator(alice: User) -> Client:
    User.objects.filter(pk=alice.pk).update(is_staff=True, is_superuser=True)
    client = Client()
    client.force_login(alice)
    return client


def test_gate_data_can_be_viewed_and_not_changed(
    api: Api, reviewer: Reviewer, operator: Client
) -> None:
    reviewer.decide(api.propose(), "approve")
    work()
    for path in LOOKED_AT:
        (app, name), at = path.split("/"), f"/admin/{path}/"
        listed = operator.get(at)
        assert (listed.status_code, b'name="action"' in listed.content) == (200, False), path
        assert operator.get(f"{at}add/").status_code == 403, path
        row = apps.get_model(app, name)._default_manager.first()
        if row is not None:
            page = operator.get(f"{at}{row.pk}/change/")
            assert (page.status_code, b'name="_save"' in page.content) == (200, False), path
            changed = operator.post(f"{at}{row.pk}/change/", {"status": "approved"})
            assert changed.status_code == 403, path
            deleted = operator.post(f"{at}{row.pk}/delete/", {"post": "yes"})
            assert deleted.status_code == 403, path


def test_no_secret_is_shown(api: Api, operator: Client) -> None:
    api.tool("list_mailboxes")
    shown = b"".join(
        operator.get(f"/admin/{path}/{model._default_manager.get().pk}/change/").content
        for path in ("accounts/mailbox", "accounts/apitoken")
        for model in admin.site._registry
        if model._meta.label_lower == path.replace("/", ".")
    )
    assert api.secret.encode() not in shown
    assert b"redentials:" not in shown
    assert b"igest:" not in shown


def test_no_words_of_a_mail_are_shown(api: Api, reviewer: Reviewer, operator: Client) -> None:
    """An operator is not a member of each mailbox."""
    action_id = api.propose(body="The marten sleeps.")
    reviewer.decide(action_id, "ask_back", note="Say weasel.", passage="The marten sleeps.")
    PendingAction.objects.filter(pk=action_id).update(
        error={"code": "x", "detail": "marten"}, returned={"warnings": [{"text": "marten"}]}
    )
    decision = Decision.objects.get()
    assert (decision.note, decision.passage) == ("Say weasel.", "The marten sleeps.")

    for address in (f"pendingaction/{action_id}", f"decision/{decision.pk}"):
        page = operator.get(f"/admin/approvals/{address}/change/")
        assert page.status_code == 200
        assert b"marten" not in page.content
        assert b"weasel" not in page.content


def test_admin_cannot_decide_a_pending_action(api: Api, operator: Client) -> None:
    action_id = api.propose()
    operator.post(
        "/admin/approvals/pendingaction/",
        {"action": "delete_selected", "_selected_action": action_id},
    )
    assert PendingAction.objects.get().status == "pending"


def test_only_operators_get_in(reviewer: Reviewer) -> None:
    assert reviewer.client.get("/admin/approvals/pendingaction/").status_code == 302
