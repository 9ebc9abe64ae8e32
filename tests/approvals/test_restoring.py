"""After a restore: an action that may have been handed over is approved only by a person who was
warned, and a mail that is in Sent already does not leave again.
"""

from collections.abc import Callable
from io import StringIO

import pytest
from django.core.management import call_command

from accounts.infra.problems import Problem
from accounts.models import Mailbox, User
from approvals.decisions import edits
from approvals.models import PendingAction
from approvals.pauses import journal, restored
from approvals.worker.execution import execute
from approvals.worker.restore import reconcile_after_restore
from tests.conftest import Api, Reviewer
from tools.providers.memory import MemoryServer

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]


def test_page_from_before_the_warning_approves_nothing(api: Api, reviewer: Reviewer) -> None:
    """Check a decision that a person makes while the lookup in Sent still runs."""
    approved, waiting = api.propose(), api.propose()
    reviewer.decide(approved, "approve")
    action = PendingAction.objects.get(pk=waiting)
    shown = {"digest": action.digest, "revision": action.revision}
    journal.append(action.pk, 1)  # the database no longer has it

    reconciled = reconcile_after_restore()
    next(reconciled)
    answer = reviewer.decide(waiting, "approve", **shown)
    found = {str(each.action_id): each.found for each in reconciled}

    assert answer.status_code == 409
    action.refresh_from_db()
    assert (action.status, action.revision) == ("pending", 2)
    assert "may_have_been_sent" in [
        warning["code"] for warning in action.current.preview["warnings"]
    ]
    assert approved in found


def test_warning_is_not_repeated(api: Api, reviewer: Reviewer) -> None:
    waiting = PendingAction.objects.get(pk=api.propose())
    journal.append(waiting.pk, 1)

    assert [each.found for each in reconcile_after_restore()] == ["journal"]
    assert list(reconcile_after_restore()) == []


def test_possibly_sent_mail_stays_unchanged(api: Api, reviewer: Reviewer, alice: User) -> None:
    """Refuse the edit: otherwise Sent would hold the first wording under the id of the second."""
    waiting = PendingAction.objects.get(pk=api.propose())
    journal.append(waiting.pk, 1)
    list(reconcile_after_restore())
    waiting.refresh_from_db()

    with pytest.raises(Problem) as refused:
        edits.edit(
            action_id=waiting.pk,
            person=alice,
            digest=waiting.digest,
            revision=waiting.revision,
            changes={"subject": "Another"},
        )
    assert "may have left already" in refused.value.detail


# A worker that began after the approval looks in Sent first


@pytest.fixture
def began_now(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return a call after which this process knows nothing yet and notes when it began; the suite
    acts as an old worker.
    """

    def begin() -> None:
        monkeypatch.setattr(restored, "_compared", set())
        monkeypatch.setattr(restored, "_began", [])

    return begin


@pytest.fixture
def in_sent(
    server: MemoryServer, mailbox: Mailbox, approved: Callable[..., PendingAction]
) -> PendingAction:
    """Return an approved action whose mail is in Sent: the database is an older copy."""
    action = approved()
    source = f"Message-ID: {action.message_id}\r\n\r\nHello.\r\n".encode()
    server.deliver(mailbox.address, source, folder="sent", unread=False)
    return action


def test_mail_found_in_sent_pauses_everything(
    in_sent: PendingAction,
    approved: Callable[..., PendingAction],
    server: MemoryServer,
    began_now: Callable[[], None],
) -> None:
    other = approved(subject="Another")
    began_now()

    assert not execute(in_sent.pk, worker="test")

    assert restored.reason() == restored.REASONS["sent"]
    assert not execute(other.pk, worker="test")
    in_sent.refresh_from_db()
    assert (in_sent.status, server.ledger) == ("approved", [])


def test_mail_approved_despite_the_warning_is_closed_as_sent(
    api: Api,
    reviewer: Reviewer,
    mailbox: Mailbox,
    server: MemoryServer,
    began_now: Callable[[], None],
) -> None:
    waiting = PendingAction.objects.get(pk=api.propose())
    journal.append(waiting.pk, 1)
    call_command("after_restore", "--yes", "--force", stdout=StringIO())
    waiting.refresh_from_db()
    source = f"Message-ID: {waiting.message_id}\r\n\r\nHello.\r\n".encode()
    server.deliver(mailbox.address, source, folder="sent", unread=False)
    page = reviewer.page(str(waiting.pk)).content.decode()
    assert "It may have been sent already" in page
    assert reviewer.decide(str(waiting.pk), "approve").status_code == 302
    began_now()

    execute(waiting.pk, worker="test")

    waiting.refresh_from_db()
    assert (waiting.status, server.ledger) == ("succeeded", [])
    assert restored.reason() == ""
