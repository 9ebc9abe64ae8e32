"""Microsoft 365 itself, with a test mailbox (docs/dev/live-tests.md).

Skipped without one.
"""

import os
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from accounts.connect import microsoft
from accounts.connect.connecting import connect_mailbox
from accounts.models import Mailbox, Membership, Role, User
from approvals.models import PendingAction
from tests.conftest import Api, Reviewer
from tests.support.people.outlook import approved
from tests.support.work import work
from tools.providers import provider_for
from tools.providers.errors import Refused
from tools.providers.graph import GraphProvider
from tools.providers.notes import DraftNotes

SUBJECT = "mailhub live test"
ADDRESS, OTHER = (
    os.environ.get("LIVE_MICROSOFT_ADDRESS", ""),
    os.environ.get("LIVE_MICROSOFT_OTHER_ADDRESS", ""),
)
SECONDS = 120.0
pytestmark = [
    pytest.mark.live,
    pytest.mark.django_db,
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        not (ADDRESS and OTHER and os.environ.get("MICROSOFT_CLIENT_SECRET")),
        reason="no live Microsoft 365 mailbox",
    ),
]


@pytest.fixture
def mailbox(alice: User) -> Mailbox:
    """Connect with the application's own permissions: nobody has to sign in for a test."""
    granted = microsoft.by_client_credentials()
    microsoft.prove_application(ADDRESS, granted.secrets["access_token"])
    mailbox = connect_mailbox(
        owner=alice,
        address=ADDRESS,
        provider="microsoft",
        secrets=granted.secrets,
        scopes=list(granted.scopes),
    )
    assert Membership.objects.get(mailbox=mailbox).role == Role.MANAGER
    return mailbox


@pytest.fixture
def subject(api: Api, mailbox: Mailbox) -> Iterator[str]:
    """Yield a subject of this run only; mails with it are removed from Sent and Drafts
    afterwards.
    """
    mark = f"{SUBJECT} {uuid.uuid4().hex[:8]}"
    yield mark
    provider: Any = provider_for(mailbox)
    for folder in ("sent", "inbox", "drafts"):
        for card in api.tool("search_emails", subject=mark, folder=folder).json()["emails"]:
            provider.mailbox.client.call(
                "DELETE", provider.mailbox.find_message(card["id"]), scope="Mail.ReadWrite"
            )


def until(condition: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + SECONDS
    while not (found := condition()):
        assert time.monotonic() < deadline
        time.sleep(3)
    return found


def leaves(api: Api, reviewer: Reviewer, tool: str, **asked: Any) -> PendingAction:
    action = approved(reviewer, api.tool(tool, **asked, confirm=True))
    work()
    action.refresh_from_db()
    assert action.status == "succeeded", action.error
    return action


def in_sent(api: Api, subject: str) -> list[dict[str, Any]]:
    return list(api.tool("search_emails", subject=subject, folder="sent").json()["emails"])


def test_sent_mail_is_in_sent(api: Api, reviewer: Reviewer, subject: str, mailbox: Mailbox) -> None:
    file = {"name": "a.txt", "type": "text/plain", "content_base64": "b25l"}
    action = leaves(
        api, reviewer, "send_email", to=[OTHER], subject=subject, body="Grüße\n", attachments=[file]
    )
    until(lambda: in_sent(api, subject))
    assert provider_for(mailbox).find_sent(action.message_id)


def test_reply_and_forward_stay_in_their_thread(api: Api, reviewer: Reviewer, subject: str) -> None:
    leaves(api, reviewer, "send_email", to=[ADDRESS], subject=subject, body="To myself.\n")
    (card,) = until(
        lambda: api.tool("search_emails", subject=subject, folder="inbox").json()["emails"]
    )
    leaves(api, reviewer, "reply_email", message_id=card["id"], comment="An answer.")
    leaves(api, reviewer, "forward_email", message_id=card["id"], to=[OTHER])
    until(lambda: len(in_sent(api, subject)) == 3)
    thread = api.tool("read_thread", message_id=card["id"]).json()["messages"]
    assert len(thread) >= 2


def test_word_search_finds_the_mail(api: Api) -> None:
    assert "emails" in api.tool("search_emails", query="mailhub", unread=True).json()


def test_destroyed_draft_cannot_be_sent_any_more(mailbox: Mailbox, subject: str) -> None:
    """Check the proof of `destroy`: no order finds the draft, also not under another folder."""
    provider = GraphProvider.for_mailbox(mailbox)
    made = provider.mailbox.client.call(
        "POST",
        "/messages",
        scope="Mail.ReadWrite",
        json={"subject": subject, "toRecipients": [{"emailAddress": {"address": OTHER}}]},
    ).body
    sent = provider.mailbox.client.get("/mailFolders/sentitems").body["id"]
    with pytest.raises(Refused):
        provider.mailbox.client.call(
            "POST",
            f"/mailFolders/{sent}/messages/{made['id']}/permanentDelete",
            scope="Mail.ReadWrite",
        )
    notes = DraftNotes(draft=made["id"], version=made["changeKey"], folder=made["parentFolderId"])
    assert provider.destroy(notes)
    with pytest.raises(Refused):
        provider.mailbox.client.call("POST", f"/messages/{made['id']}/send", scope="Mail.Send")
