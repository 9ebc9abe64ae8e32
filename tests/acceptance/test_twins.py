"""The same mail twice: a person learns of the other one, also if it was edited or if both came at
the same time.
"""

from typing import Any

import pytest

from approvals.models import PendingAction
from approvals.worker import maintenance
from tests.approvals.webhook_listener import Listener, httpserver, listener, told
from tests.conftest import Api, Reviewer
from tests.faults.gmail_road import now_it_is_time
from tests.support.people.gmail import gmail, mailbox
from tests.support.servers.gmail import GmailServer
from tests.support.servers.sandbox import ADA, MIRA
from tests.support.work import work

__all__ = ["gmail", "httpserver", "listener", "mailbox"]
pytestmark = pytest.mark.django_db(transaction=True)

OFFER: dict[str, Any] = {"to": [MIRA], "subject": "Offer", "body": "Our offer: 100 EUR."}
EDITED = OFFER | {"body": "Our offer: 120 EUR."}


def lose_answer(action_id: str, reviewer: Reviewer, gmail: GmailServer) -> None:
    """Approve the mail; it is sent, and the answer of Gmail is lost."""
    assert reviewer.decide(action_id, "approve").status_code == 302
    gmail.drop("drafts.send", after=True)
    work()
    assert PendingAction.objects.get(pk=action_id).status == "unknown"


def codes(action_id: str) -> set[str]:
    preview = PendingAction.objects.get(pk=action_id).current.preview
    return {warning["code"] for warning in preview["warnings"]}


@pytest.fixture
def in_doubt(api: Api, reviewer: Reviewer, gmail: GmailServer, settings: Any) -> str:
    """Return a mail that was edited, sent, and whose answer was lost."""
    settings.DUPLICATE_WINDOW_SECONDS = 0
    action_id = api.propose(**OFFER)
    assert reviewer.decide(action_id, "edit", body=EDITED["body"]).status_code == 302
    lose_answer(action_id, reviewer, gmail)
    return action_id


@pytest.mark.parametrize("mail", [OFFER, EDITED])
def test_mail_like_an_edited_one_in_doubt_is_warned(
    api: Api, in_doubt: str, mail: dict[str, Any]
) -> None:
    assert codes(api.propose(**mail)) >= {"possible_duplicate", "may_have_been_sent"}


HTML = OFFER | {"body": "<p>Our <b>offer</b>: 100 EUR.</p>", "body_type": "html"}
MARKDOWN = OFFER | {"body": "Our **offer**: 100 EUR.", "body_type": "markdown"}
RENAMED = HTML | {"subject": "Offer 2"}


def test_mail_like_an_edited_page_in_doubt_is_warned(
    api: Api, reviewer: Reviewer, gmail: GmailServer, settings: Any
) -> None:
    """An edit knows the words of a page, and no longer the HTML that its proposer wrote."""
    settings.DUPLICATE_WINDOW_SECONDS = 0
    action_id = api.propose(**HTML)
    assert reviewer.decide(action_id, "edit", subject=RENAMED["subject"]).status_code == 302
    lose_answer(action_id, reviewer, gmail)

    for mail in (HTML, RENAMED, MARKDOWN | {"subject": "Offer 2"}):
        assert codes(api.propose(**mail)) >= {"possible_duplicate", "may_have_been_sent"}


def test_edit_of_a_page_keeps_the_warning_of_a_duplicate(
    api: Api, reviewer: Reviewer, settings: Any
) -> None:
    api.propose(**HTML)
    action_id = api.propose(**HTML)
    assert "possible_duplicate" in codes(action_id)
    settings.DUPLICATE_WINDOW_SECONDS = 0

    assert reviewer.decide(action_id, "edit", bcc="bob@lovelace.example").status_code == 302

    assert "possible_duplicate" in codes(action_id)


def test_edit_into_a_mail_in_doubt_is_warned(api: Api, reviewer: Reviewer, in_doubt: str) -> None:
    second = api.propose(**OFFER | {"body": "Something else."})
    assert not codes(second) & {"possible_duplicate", "may_have_been_sent"}

    assert reviewer.decide(second, "edit", body=EDITED["body"]).status_code == 302

    assert codes(second) >= {"possible_duplicate", "may_have_been_sent"}


@pytest.fixture(params=[HTML, MARKDOWN], ids=["same HTML", "same words"])
def two(
    request: Any, api: Api, reviewer: Reviewer, gmail: GmailServer, settings: Any
) -> tuple[str, str]:
    """Return two mails with the same words; only then the answer to the first was lost."""
    settings.DUPLICATE_WINDOW_SECONDS = 0
    first, second = api.propose(**HTML), api.propose(**request.param)
    lose_answer(first, reviewer, gmail)
    return first, second


def test_doubt_after_the_proposal_is_told_before_its_approval(
    two: tuple[str, str], api: Api, reviewer: Reviewer, gmail: GmailServer, listener: Listener
) -> None:
    """The doubt is about the first, so programs do not learn it of the second."""
    _, second = two
    listener.added(api, events=["action.approved"])

    assert reviewer.decide(second, "approve").status_code == 409

    assert codes(second) >= {"may_have_been_sent", "possible_duplicate"}
    assert reviewer.decide(second, "approve").status_code == 302
    told()
    assert "may_have_been_sent_at" not in listener.heard[-1]["data"]
    assert "already" not in listener.heard[-1]["data"]["next"]
    work()
    assert len(gmail.ledger) == 2


def test_doubt_after_the_approval_returns_the_other_mail(
    api: Api, reviewer: Reviewer, gmail: GmailServer, settings: Any
) -> None:
    settings.DUPLICATE_WINDOW_SECONDS = 0
    first, second = api.propose(**OFFER), api.propose(**OFFER)
    for action_id in (first, second):
        assert reviewer.decide(action_id, "approve").status_code == 302
    gmail.drop("drafts.send", after=True)
    work()

    assert PendingAction.objects.get(pk=first).status == "unknown"
    assert PendingAction.objects.get(pk=second).status == "pending"
    assert codes(second) >= {"may_have_been_sent", "possible_duplicate"}
    assert len(gmail.ledger) == 1
    assert reviewer.decide(second, "approve").status_code == 302
    work()
    assert len(gmail.ledger) == 2


def test_copy_is_ordered_with_the_doubt_about_a_twin_in_view(
    two: tuple[str, str], reviewer: Reviewer, gmail: GmailServer
) -> None:
    """The answer to the second mail is lost too, and a person says that the first was not sent."""
    first, second = two
    assert reviewer.decide(second, "approve").status_code == 409
    lose_answer(second, reviewer, gmail)

    assert reviewer.decide(first, "resolve", ruling="not_sent", fence="1").status_code == 302

    assert PendingAction.objects.get(pk=first).status == "pending"
    assert codes(first) >= {"may_have_been_sent", "possible_duplicate"}
    assert reviewer.decide(first, "approve").status_code == 302


def test_mail_that_was_edited_into_another_one_is_not_warned(
    two: tuple[str, str], reviewer: Reviewer
) -> None:
    _, second = two
    assert reviewer.decide(second, "edit", subject="Another offer").status_code == 302

    assert reviewer.decide(second, "approve").status_code == 302


def test_mail_like_one_that_was_sent_all_the_same_is_warned(
    api: Api, reviewer: Reviewer, gmail: GmailServer, settings: Any
) -> None:
    """Withdraw a mail whose prepared draft its owner has sent."""
    settings.DUPLICATE_WINDOW_SECONDS = 0
    action_id = api.propose(**OFFER)
    reviewer.decide(action_id, "approve")
    gmail.fail("drafts.send", 429)
    work()
    box = gmail.box(ADA)
    (draft,) = box.drafts
    gmail._send(box, draft)
    assert api.post(f"/actions/{action_id}/cancel").status_code == 200
    now_it_is_time()
    maintenance.sweep()
    assert "also_sent_at" in api.get(f"/actions/{action_id}").json()

    assert "may_have_been_sent" in codes(api.propose(**OFFER))


def test_repeated_request_during_a_slow_one_is_told(api: Api, gmail: GmailServer) -> None:
    """Let the repetition, without a key, come while the first request waits for the provider."""
    repeated: list[str] = []

    def repeat(call: Any) -> None:
        del gmail.before["messages.list"]
        repeated.append(api.propose(**OFFER))

    gmail.before["messages.list"] = repeat
    slow = api.propose(**OFFER)

    assert "possible_duplicate" in codes(slow)
    assert "possible_duplicate" not in codes(repeated[0])
