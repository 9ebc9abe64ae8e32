"""`explain` says what an action waits for and what happened to it, and quotes nothing of it."""

import re
from collections.abc import Callable
from datetime import timedelta
from io import StringIO
from uuid import uuid4

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone
from django.utils.html import escape

from accounts.models import Mailbox, User
from approvals.core.types import Outcome
from approvals.gate.pauses import switch
from approvals.models import PendingAction
from tests.approvals.kinds import LOST, Script
from tests.conftest import Api
from tests.support.people.browser import browser
from tests.support.work import work

pytestmark = pytest.mark.django_db(transaction=True)


def explain(action: PendingAction) -> str:
    out = StringIO()
    call_command("explain", str(action.pk), stdout=out)
    return out.getvalue()


def test_each_reason_to_wait_is_named(
    api: Api, approved: Callable[..., PendingAction], mailbox: Mailbox, alice: User
) -> None:
    waiting = PendingAction.objects.get(pk=api.propose(subject="Secret matter"))
    assert "waits for   a person's decision" in explain(waiting)

    action = approved(
        subject="Secret matter", send_at=f"{timezone.now() + timedelta(hours=1):%FT%TZ}"
    )
    switch.pause(mailbox=mailbox, actor=f"user:{alice.pk}")
    said = explain(action)
    assert "waits for   the end of the pause of its mailbox" in said
    assert "waits for   its time" in said
    assert "Secret matter" not in said + explain(waiting)


def test_page_tells_managers_and_staff_the_same(api: Api, alice: User, charlie: User) -> None:
    action = PendingAction.objects.get(pk=api.propose(subject="Secret matter"))
    lines = explain(action).splitlines()
    manager, operator, stranger = browser(alice), browser(charlie), browser(charlie)
    User.objects.filter(pk=charlie.pk).update(is_staff=True, is_superuser=True)
    for reader in (manager, operator):
        shown = reader.get(
            f"/actions/{action.pk}/story/", headers={"accept-language": "de"}
        ).content.decode()
        assert [line for line in lines if escape(line) not in shown] == []
        assert "Secret matter" not in shown
    address, review = f"/actions/{action.pk}/story/", f'href="/actions/{action.pk}/"'
    assert review in manager.get(address).content.decode()
    assert review not in operator.get(address).content.decode()  # it would be a dead link
    assert address in manager.get(f"/actions/{action.pk}/").content.decode()
    assert address in operator.get("/admin/approvals/pendingaction/").content.decode()
    User.objects.filter(pk=charlie.pk).update(is_staff=False)
    assert stranger.get(address).status_code == 404


def test_attempts_and_doubts_are_told(
    approved: Callable[..., PendingAction], script: Script
) -> None:
    def loses(approved_action: object) -> Outcome:
        approved_action.wire_started()  # type: ignore[attr-defined]
        return LOST

    script.instead = loses
    action = approved()
    work()
    said = explain(action)
    assert "wire_started, unknown timeout" in said
    assert "It may have been sent at" in said
    assert "waits for   the lookup at" in said
    assert "Claimed by a worker fence=1" in said


def test_what_is_empty_is_left_out(approved: Callable[..., PendingAction], script: Script) -> None:
    action = approved(subject="Accepted")
    work()
    said = explain(action)
    assert "wire_started, accepted, worker test" in said
    assert re.search(r"=( |$)", said, re.MULTILINE) is None


def test_unknown_action_is_an_error() -> None:
    with pytest.raises(CommandError, match="no such action"):
        call_command("explain", str(uuid4()))
