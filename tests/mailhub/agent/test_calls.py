"""The calls of the chat on a mailbox, for its managers: they outlive the conversation."""

import pytest
from django.urls import reverse

from accounts.models import Mailbox, Membership, Role, User
from mailhub.agent.models import Thread, ToolCall
from tests.conftest import HELLO, Reviewer
from tests.mailhub.agent.conftest import Chat
from tests.support.people.browser import browser
from tests.support.servers.model import ModelServer, Says

pytestmark = pytest.mark.django_db(transaction=True)


def test_calls_stay_for_managers_after_the_conversation(
    person: Chat, model: ModelServer, reviewer: Reviewer, mailbox: Mailbox
) -> None:
    model.says(
        Says(calls=(("search_emails", {"query": "xylophone"}), ("list_mailboxes", {}))),
        Says(calls=(("send_email", {**HELLO, "mailbox": mailbox.address, "confirm": True}),)),
    )
    person.ask("Find it, then write to Mira", mode="safeWrite")
    manager = User.objects.create_user("max@lovelace.example")
    Membership.objects.create(mailbox=mailbox, user=manager, role=Role.MANAGER)
    forget = reverse("agent_forget", args=[Thread.objects.get().pk])
    assert browser(reviewer.user).post(forget).status_code == 302

    page = browser(manager).get(reverse("chat_calls", args=[mailbox.pk])).content.decode()

    assert not Thread.objects.exists()
    for shown in ("search_emails", "send_email", reviewer.user.email):
        assert shown in page
    action = ToolCall.objects.get(tool="send_email").action_id
    assert action is not None
    assert reverse("review", args=[action]) in page
    for other in ("list_mailboxes", "xylophone", HELLO["subject"]):
        assert other not in page


def test_call_on_a_foreign_mailbox_is_on_no_page_of_it(
    chat: Chat, model: ModelServer, alice: User
) -> None:
    mallory = User.objects.create_user("mallory@evil.example")
    foreign = Mailbox.objects.create(address="mallory@evil.example", provider="imap")
    Membership.objects.create(mailbox=foreign, user=mallory, role=Role.MANAGER)
    model.says(
        Says(
            calls=(
                ("list_emails", {"mailbox": foreign.address}),
                ("list_emails", {"mailbox": ["x"]}),
                ("list_emails", {"mailbox": "\0"}),
                ("no_such_tool", {}),
            )
        )
    )
    chat.ask("Look there")

    assert ToolCall.objects.count() == 4
    assert not ToolCall.objects.exclude(mailbox=None).exists()
    page = browser(mallory).get(reverse("chat_calls", args=[foreign.pk])).content.decode()
    assert alice.email not in page
