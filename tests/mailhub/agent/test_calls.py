"""The calls of the chat on a mailbox, for its managers: they outlive the conversation."""

import pytest
from django.urls import reverse

from accounts.models import Mailbox, Membership, Role, User
from mailhub.agent.models import Message, Thread, ToolCall
from tests.conftest import HELLO, Api, Reviewer
from tests.mailhub.agent.conftest import Chat
from tests.support.people.browser import browser
from tests.support.servers.model import ModelServer, Says

pytestmark = pytest.mark.django_db(transaction=True)
PARTS = ("/agent/threads/{name}/talk/", "/agent/threads/{name}/cards/")


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


def test_pages_show_only_the_own_threads_of_the_chat(alice: User, charlie: User) -> None:
    """Those of the own token are not shown either, as in `Thread`."""
    own = Thread.objects.create(user=alice, name="own", title="Plan")
    others = [
        Thread.objects.create(
            user=alice, caller_name="agent", name="of-a-token", title="Xylophone"
        ),
        Thread.objects.create(user=charlie, name="foreign", title="Xylophone"),
    ]
    window = browser(alice)
    for thread in (own, *others):
        for page in (f"/agent/{thread.pk}/", *PARTS):
            shown = window.get(page.format(name=thread.name))
            assert shown.status_code == (200 if thread == own else 404), page
            assert "Xylophone" not in shown.content.decode()
    for thread in others:
        assert window.post(reverse("agent_forget", args=[thread.pk])).status_code == 404


def test_cards_of_a_thread_end_with_the_role(api: Api, bob: User) -> None:
    thread = Thread.objects.create(user=bob, name="t")
    action = api.propose(subject="Xylophone")
    Message.objects.create(thread=thread, author="tool", tool="send_email", action_id=action)
    window = browser(bob)
    assert "Xylophone" in window.get("/agent/threads/t/cards/").content.decode()
    Membership.objects.filter(user=bob).delete()
    for page in (f"/agent/{thread.pk}/", "/agent/threads/t/cards/"):
        assert "Xylophone" not in window.get(page).content.decode()


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
