"""The author of a draft does not approve the mail that is made of it, however the draft came to its
present id.
"""

from typing import Any

import pytest

from accounts.models import Mailbox, Membership, Role, User
from approvals.models import ApprovalPolicy
from tests.conftest import Api, make_api
from tests.security.people import decide, state_of
from tests.support.people.gmail import connected, gmail
from tests.support.people.office import Office, office
from tests.support.servers.gmail import GmailServer
from tests.support.servers.sandbox import MIRA
from tests.support.work import work

__all__ = ["gmail", "office"]
pytestmark = pytest.mark.django_db(transaction=True)

NOTE: dict[str, Any] = {"to": [MIRA], "subject": "Offer", "body": "Our offer."}
PAY = NOTE | {"body": "Pay to IBAN 4711."}


def send_the_draft(api: Api) -> str:
    (draft,) = api.tool("list_drafts").json()["drafts"]
    sent = api.tool("send_draft", draft_id=draft["id"], confirm=True)
    assert sent.status_code == 202, sent.content
    return str(sent.json()["action"]["id"])


def manage(mailbox: Mailbox) -> User:
    """Return Bob, a manager of a mailbox where authors do not approve."""
    bob = User.objects.create_user("bob@lovelace.example", first_name="Bob")
    Membership.objects.create(mailbox=mailbox, user=bob, role=Role.MANAGER)
    ApprovalPolicy.objects.update_or_create(mailbox=mailbox, defaults={"self_approval": False})
    return bob


def test_author_of_an_approved_change_does_not_approve(
    mailbox: Mailbox, alice: User, bob: User
) -> None:
    ApprovalPolicy.objects.create(mailbox=mailbox, self_approval=False)
    of_bob, of_alice = make_api(bob, mailbox), make_api(alice, mailbox)
    draft = of_alice.tool("create_draft", **NOTE).json()
    change = of_bob.tool("update_draft", draft_id=draft["id"], **PAY).json()["action"]["id"]
    assert decide(alice, change) == 302  # it changes a draft, and sends nothing
    work()
    assert state_of(change) == "succeeded"

    assert decide(bob, send_the_draft(of_alice)) == 403


def test_author_does_not_approve_after_a_mail_program_saved_it(office: Office) -> None:
    """On IMAP the draft has another id then, and the same Message-ID."""
    bob = manage(office.mailbox)
    of_bob = make_api(bob, office.mailbox, name="bobs")
    assert of_bob.tool("create_draft", **PAY).status_code == 200
    client = office.imap.signed_in(office.ada)
    client.select_folder("Drafts")
    (uid,) = client.search(["ALL"])
    source = client.fetch([uid], ["BODY[]"])[uid][b"BODY[]"]
    client.append("Drafts", source.replace(b"Offer", b"Offer!"), flags=[rb"\Draft"])
    client.delete_messages([uid])
    client.expunge()

    assert decide(bob, send_the_draft(office.api)) == 403


def test_author_of_a_draft_with_a_lost_answer_does_not_approve(
    alice: User, gmail: GmailServer
) -> None:
    mailbox = connected(gmail, alice)
    bob = manage(mailbox)
    gmail.drop("drafts.create", after=True)
    assert make_api(bob, mailbox).tool("create_draft", **PAY).status_code != 200

    assert decide(bob, send_the_draft(make_api(alice, mailbox))) == 403
