"""A mail that is larger than the Gmail API accepts is refused as soon as its size is known."""

from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from approvals.models import PendingAction
from approvals.worker import maintenance
from tests.conftest import Api, Reviewer
from tests.support.people.gmail import gmail, mailbox
from tests.support.servers.gmail import GmailServer
from tests.support.work import work
from tools.providers.base import Envelope
from tools.providers.errors import Refused
from tools.providers.gmail import GmailProvider, drafting

__all__ = ["gmail", "mailbox"]
pytestmark = pytest.mark.django_db(transaction=True)
LIMIT = 36_700_160  # maximum bytes of an upload of drafts, by Google's description of the API
SMALL = 300_000  # the same code in a tenth of a second
FOUR_MB = 4 * 1024 * 1024 - 1
HELLO: dict[str, Any] = {"to": ["mira@northwind.example"], "subject": "Hello", "body_type": "html"}
SHORT, LONG = "<p>Hello.</p>", f"<p>{'😀' * 99_000}</p>"


class WithoutLimit(GmailProvider):
    """A provider that does not know the limit when a mail is proposed."""

    def check(self, envelope: Envelope) -> None:
        pass


@pytest.fixture(params=[SMALL, pytest.param(LIMIT, marks=pytest.mark.long)])
def limit(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the limit as people read it."""
    monkeypatch.setattr(drafting, "LARGEST", request.param)
    return f"{request.param:,}"


@pytest.fixture
def attachments(api: Api, limit: str) -> list[dict[str, str]]:
    """Return attachments that are under the limit by themselves: as many as are allowed, if it is
    Gmail's own.
    """
    sizes = [1000] if limit == f"{SMALL:,}" else [*[FOUR_MB] * 6, 1024 * 1024]
    return [{"handle": uploaded(api, size)} for size in sizes]


def uploaded(api: Api, size: int) -> str:
    file = SimpleUploadedFile("a.bin", b"x" * size)
    answer = api.client.post(
        "/api/v1/attachments", {"file": file}, headers={"Authorization": f"Bearer {api.secret}"}
    )
    assert answer.status_code == 201, answer.content
    return str(answer.json()["handle"])


def test_limit_is_the_one_that_google_documents() -> None:
    assert drafting.LARGEST == LIMIT
    drafting.refuse_too_large(LIMIT)
    with pytest.raises(Refused, match="too_large"):
        drafting.refuse_too_large(LIMIT + 1)


def test_too_large_mail_is_refused_before_an_approval(
    api: Api, attachments: list[dict[str, str]], limit: str
) -> None:
    for confirm in (False, True):
        answer = api.tool(
            "send_email", **HELLO, body=LONG, attachments=attachments, confirm=confirm
        )
        assert (answer.status_code, answer.json()["code"]) == (413, "too_large")
        assert limit in answer.json()["detail"]
    assert not PendingAction.objects.exists()


def test_edit_that_makes_it_too_large_is_refused_in_the_form(
    api: Api, reviewer: Reviewer, attachments: list[dict[str, str]], gmail: GmailServer, limit: str
) -> None:
    action_id = api.propose(**HELLO, body=SHORT, attachments=attachments)
    page = reviewer.decide(action_id, "edit", body=LONG)
    assert (page.status_code, limit in page.content.decode()) == (413, True)
    assert PendingAction.objects.get().revision == 1
    reviewer.decide(action_id, "approve")
    work()
    assert (PendingAction.objects.get().status, len(gmail.ledger)) == ("succeeded", 1)


def test_too_large_mail_fails_at_the_send_without_a_draft(
    api: Api,
    reviewer: Reviewer,
    attachments: list[dict[str, str]],
    gmail: GmailServer,
    settings: Any,
    limit: str,
) -> None:
    known = settings.MAILHUB_PROVIDERS
    settings.MAILHUB_PROVIDERS = {**known, "gmail": f"{__name__}.{WithoutLimit.__name__}"}
    action_id = api.propose(**HELLO, body=LONG, attachments=attachments)
    reviewer.decide(action_id, "approve")
    settings.MAILHUB_PROVIDERS = known
    work()
    maintenance.sweep()
    work()
    shown = api.get(f"/actions/{action_id}").json()
    assert (shown["state"], shown["error"]["code"], limit in shown["error"]["detail"]) == (
        "failed",
        "too_large",
        True,
    )
    assert (gmail.count("drafts.create"), gmail.count("drafts.send"), gmail.ledger) == (0, 0, [])


def test_draft_too_large_for_gmail_is_refused(
    api: Api, attachments: list[dict[str, str]], gmail: GmailServer, limit: str
) -> None:
    answer = api.tool("create_draft", **HELLO, body=LONG, attachments=attachments)
    assert (answer.status_code, answer.json()["code"], limit in answer.json()["detail"]) == (
        413,
        "too_large",
        True,
    )
    assert gmail.count("drafts.create") == 0
