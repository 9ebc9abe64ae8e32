"""After a restore: an action that may have been handed over is approved only by a person who was
warned.
"""

import pytest

from accounts.infra.problems import Problem
from accounts.models import User
from approvals.decisions import edits
from approvals.models import PendingAction
from approvals.pauses import journal
from approvals.worker.restore import reconcile_after_restore
from tests.conftest import Api, Reviewer

pytestmark = pytest.mark.django_db(transaction=True)


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
