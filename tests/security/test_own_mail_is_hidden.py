"""Programs and pages never show the codes and links that mailhub mails to a person, although they may
read the mailbox.
"""

import ast
import json
import re
import uuid
from collections.abc import Iterator
from email.message import EmailMessage
from typing import Any, cast

import pytest
from django.conf import settings
from django.core import checks
from django.test import Client

from accounts.access.caller import Caller, Surface
from accounts.infra.problems import Problem
from accounts.models import SCOPES, ApiToken, Mailbox, User
from mailhub.environment import mail_settings
from tests.conftest import Api, make_api
from tests.support.people import gmail as gmailbox
from tests.support.people.browser import browser
from tests.support.people.office import Office, letter, office
from tests.support.people.outlook import graph, mailbox
from tests.support.servers.gmail import GmailServer
from tests.support.servers.graph import GraphServer
from tests.support.servers.sandbox import ADA
from tests.support.sources import ROOT, parsed
from tools.catalog.calls import call_tool
from tools.catalog.entries import TOOLS
from tools.providers import provider_for
from tools.providers.base import MailProvider
from tools.providers.graph.reading import SEARCHED_PAGES, SPARE
from tools.reading.own_mail import WithoutOwnMail

__all__ = ["graph", "mailbox", "office"]
pytestmark = pytest.mark.django_db
gmail = gmailbox.gmail
OUTSIDE = "mira@northwind.example"
HEADER = "X-Mailhub-Own"
SENDER = "mailhub@hub.example"
ACCOUNT = "relay@hub.example"  # some mail servers put it into From
CALLERS: list[tuple[Surface, bool]] = [
    ("rest", True),
    ("mcp", True),
    ("command", True),
    ("agent", False),
    ("web", False),
]
# The tools that take an id of a mail. This mailbox is not at Gmail, and the id of `update_draft` is a draft's.
BY_ID = {
    name
    for name, tool in TOOLS.items()
    if {"message_id", "in_reply_to"} & tool.parameters.model_fields.keys()
} - {"gmail_get_message", "update_draft"}


@pytest.fixture(params=["own sender", "sender is a mailbox"])
def hub(request: Any, settings: Any, office: Office) -> Office:
    """Send our own mail by a real server, so that it arrives in the connected mailbox."""
    for name, value in mail_settings(f"smtp://127.0.0.1:{office.smtp.port}").items():
        setattr(settings, name, value)
    settings.SENDS_MAIL = True
    settings.DEFAULT_FROM_EMAIL = SENDER
    if request.param == "sender is a mailbox":
        settings.DEFAULT_FROM_EMAIL = f"Ada <{office.ada}>"
    return office


def caller(user: User, surface: Surface, token: bool, mailbox: Mailbox) -> Caller:
    if not token:
        return Caller.chat_of(user) if surface == "agent" else Caller(user=user, surface=surface)
    made = ApiToken.issue(
        user=user, name=f"agent-{uuid.uuid4().hex[:8]}", scopes=list(SCOPES), mailboxes=[mailbox]
    )[0]
    return Caller(user=user, surface=surface, token=made, scopes=frozenset(SCOPES))


def call(asks: Caller, mailbox: Mailbox, tool: str, **arguments: Any) -> dict[str, Any]:
    return dict(call_tool(asks, tool, {**arguments, "mailbox": str(mailbox.pk)}).result)


def request_code(hub: Office) -> str:
    """Post the form of the sign-in page for the owner of the mailbox, as a program can; return the
    code that arrives.
    """
    assert Client().post("/sign-in/code/", {"email": hub.ada}).status_code == 302
    (mail,) = [
        each
        for each in hub.inbox(hub.ada)
        if HEADER in each or "code" in str(each["Subject"]).lower()
    ]
    (code,) = re.findall(r"^([A-Z0-9]{4,}(?:-[A-Z0-9]{3,})*)\s*$", mail.get_content(), re.MULTILINE)
    return str(code)


def ids(mailbox: Mailbox, folder: str = "inbox") -> list[str]:
    page = provider_for(mailbox).list_messages(
        folder=folder, unread=None, limit=50, page_token=None
    )
    return [card.id for card in page.cards]


def filled(tool: str, message_id: str) -> dict[str, Any]:
    takes = "message_id" if "message_id" in TOOLS[tool].parameters.model_fields else "in_reply_to"
    example = {name: value for name, value in TOOLS[tool].example.items() if name != "thread_id"}
    return {**example, takes: message_id}


def code_of(asks: Caller, mailbox: Mailbox, tool: str, **arguments: Any) -> str:
    with pytest.raises(Problem) as refused:
        call(asks, mailbox, tool, **arguments)
    return refused.value.code


@pytest.mark.parametrize("surface", CALLERS, ids=lambda each: each[0])
def test_no_caller_gets_the_sign_in_code_of_the_owner(
    hub: Office, surface: tuple[Surface, bool]
) -> None:
    ordinary = hub.receive(letter(to=hub.ada))
    code = request_code(hub)
    asks = caller(hub.reviewer.user, *surface, hub.mailbox)
    (own,) = set(ids(hub.mailbox)) - {ordinary}

    answers = [
        call(asks, hub.mailbox, "list_emails"),
        call(asks, hub.mailbox, "list_emails", unread=True),
        call(asks, hub.mailbox, "search_emails", text=code),
        call(asks, hub.mailbox, "search_emails", newer_than_days=30),
        call(asks, hub.mailbox, "search_emails", query="ALL"),
        call(asks, hub.mailbox, "list_drafts"),
    ]
    assert [[each["id"] for each in answer["emails"]] for answer in answers[:2]] == [[ordinary]] * 2
    assert answers[0]["hidden"] == 1
    for tool in BY_ID:
        with pytest.raises(Problem) as refused:
            answers.append(call(asks, hub.mailbox, tool, **filled(tool, own)))
        assert refused.value.code == "forbidden", tool
        assert "mailhub itself" in refused.value.detail, tool
    shown = json.dumps(answers, default=str)
    assert code not in shown
    assert own not in shown


def test_rest_api_hides_and_refuses_a_mailed_code(hub: Office) -> None:
    code = request_code(hub)
    (own,) = ids(hub.mailbox)
    listed = hub.api.tool("list_emails")
    read = hub.api.tool("read_email", message_id=own)
    assert listed.json() == {"emails": [], "hidden": 1}
    assert (read.status_code, read.json()["code"]) == (403, "forbidden")
    assert code.encode() not in listed.content + read.content


def test_search_reveals_no_word_of_own_mail(hub: Office) -> None:
    """Answer a right guess and a wrong one in the same way, including the page tokens."""
    hub.receive(letter(to=hub.ada, subject="Known one"))
    code = request_code(hub)
    hub.receive(letter(to=hub.ada, subject="Known two"))
    asks = caller(hub.reviewer.user, "rest", True, hub.mailbox)

    def answers(guess: str) -> list[dict[str, Any]]:
        found = []
        for limit in (1, 2, 3):
            for query in (
                f'TEXT "{guess}"',
                f'OR TEXT "{guess}" SUBJECT "Known one"',
                f'OR TEXT "{guess}" TEXT Known',
            ):
                token: dict[str, str] = {}
                for _ in range(4):
                    page = call(
                        asks, hub.mailbox, "search_emails", query=query, max_results=limit, **token
                    )
                    found.append(page)
                    if "next_page_token" not in page:
                        break
                    token = {"page_token": page["next_page_token"]}
        return found

    assert answers(code[:3]) == answers("QXZ")


def test_own_mail_without_its_mark_is_known_by_its_sender(hub: Office, settings: Any) -> None:
    settings.DEFAULT_FROM_EMAIL = f"mailhub <{SENDER.title()}>"
    hub.imap.deliver(
        hub.ada, letter(to=hub.ada, sender=f"M <{SENDER}>", text="ABCD-EFGH\n").as_bytes()
    )
    (own,) = ids(hub.mailbox)
    asks = caller(hub.reviewer.user, "mcp", True, hub.mailbox)
    assert call(asks, hub.mailbox, "list_emails")["emails"] == []
    assert call(asks, hub.mailbox, "search_emails", text="ABCD")["emails"] == []
    assert code_of(asks, hub.mailbox, "read_email", message_id=own) == "forbidden"


def test_ordinary_mail_beside_own_mail_stays_visible(office: Office, settings: Any) -> None:
    settings.DEFAULT_FROM_EMAIL = office.ada
    office.imap.deliver(
        office.ada, letter(to=OUTSIDE, sender=office.ada).as_bytes(), folder="Sent Messages"
    )
    asks = caller(office.reviewer.user, "rest", True, office.mailbox)
    (card,) = call(asks, office.mailbox, "list_emails", folder="sent")["emails"]
    assert call(asks, office.mailbox, "read_email", message_id=card["id"])["body"]
    assert [
        each.id for each in checks.run_checks(databases=["default"]) if each.id == "approvals.W002"
    ]
    settings.DEFAULT_FROM_EMAIL = SENDER
    assert not [
        each.id for each in checks.run_checks(databases=["default"]) if each.id == "approvals.W002"
    ]


def test_mark_of_another_server_hides_nothing(hub: Office) -> None:
    forged = f"{'0' * 32} {'0' * 8}:{'0' * 64}"
    for value in (forged, "yes", "=?utf-8?q?x?="):
        message = letter(to=hub.ada, text="Ordinary.\n")
        message[HEADER] = value
        hub.receive(message)
    assert len(hub.tool("list_emails")["emails"]) == 3


def test_spoofed_outside_sender_is_only_hidden(hub: Office, settings: Any) -> None:
    settings.DEFAULT_FROM_EMAIL = SENDER
    ordinary = hub.receive(letter(to=hub.ada, subject="First"))
    hub.imap.deliver(
        hub.ada, letter(to=hub.ada, sender=SENDER, References="<a@northwind.example>").as_bytes()
    )
    last = letter(to=hub.ada, subject="Last")
    last["References"] = "<a@northwind.example>"
    newest = hub.receive(last)
    assert [each["id"] for each in hub.tool("list_emails")["emails"]] == [newest, ordinary]
    assert [each["id"] for each in hub.tool("read_thread", message_id=newest)["messages"]] == [
        newest
    ]


def test_pages_are_full_although_own_mail_is_skipped(hub: Office) -> None:
    first = hub.receive(letter(to=hub.ada, subject="First"))
    request_code(hub)
    second = hub.receive(letter(to=hub.ada, subject="Second"))
    page = hub.tool("list_emails", max_results=2)
    assert [each["id"] for each in page["emails"]] == [second, first]


def test_returned_mail_does_not_reveal_the_code_inside_it(hub: Office) -> None:
    """Hide a bounce too, because it contains the original as an attachment."""
    request_code(hub)
    (original,) = hub.inbox(hub.ada)
    bounce = EmailMessage()
    bounce["From"], bounce["To"], bounce["Subject"] = (
        f"postmaster@{OUTSIDE}",
        hub.ada,
        "Undelivered",
    )
    bounce.set_content("It came back.")
    bounce.add_attachment(original)
    message_id = hub.receive(bounce)
    (file,) = hub.tool("list_attachments", message_id=message_id)["attachments"]
    read = hub.tool("read_email", message_id=message_id)
    assert (read["body"], len(read["notes"])) == ("It came back.", 1)
    for form in ("text", "base64", "link"):
        given = {"message_id": message_id, "attachment_id": file["id"], "as": form}
        assert hub.refused("download_attachment", **given)["code"] == "forbidden"
    assert hub.refused("forward_email", message_id=message_id, to=[OUTSIDE])["code"] == "forbidden"


def test_own_mail_moved_to_drafts_is_no_draft_for_a_program(hub: Office) -> None:
    code = request_code(hub)
    (source,) = hub.imap.messages(hub.ada)
    hub.imap.deliver(hub.ada, source, folder="Drafts")
    (draft,) = ids(hub.mailbox, "drafts")
    assert hub.tool("list_drafts")["drafts"] == []
    for confirm in (False, True):
        problem = hub.refused("send_draft", draft_id=draft, confirm=confirm)
        assert problem["code"] == "forbidden"
        assert code not in json.dumps(problem)
    change = {"draft_id": draft, "to": [OUTSIDE], "subject": "s", "body": "b"}
    assert hub.refused("update_draft", **change)["code"] == "forbidden"
    assert hub.refused("delete_draft", draft_id=draft)["code"] == "forbidden"


def marked(sender: str) -> bytes:
    from accounts.people.own_mail import new_mark

    message = letter(to=ADA, sender=sender, subject="Your code", text="ABCD-EFGH\n")
    message[HEADER] = new_mark()
    return message.as_bytes()


@pytest.mark.parametrize("sender", [SENDER, ADA])
def test_gmail_tools_hide_and_refuse_own_mail(
    gmail: GmailServer, alice: User, settings: Any, sender: str
) -> None:
    settings.DEFAULT_FROM_EMAIL = sender
    found = gmailbox.connected(gmail, alice)
    ordinary = gmail.deliver(ADA, gmailbox.letter("Number 1"))
    own = gmail.deliver(ADA, marked(sender))
    api = make_api(alice, found)
    for tool, given, rows in (
        ("list_emails", {}, "emails"),
        ("search_emails", {"newer_than_days": 3650}, "emails"),
        ("gmail_search_messages", {"query": "Number OR code"}, "messages"),
    ):
        answer = api.tool(tool, **given)
        assert answer.status_code == 200, answer.content
        assert own.id not in {row["id"] for row in answer.json()[rows]}, tool
        assert b"ABCD-EFGH" not in answer.content, tool
    assert api.tool("list_emails").json()["emails"][0]["id"] == ordinary.id
    for fmt in ("full", "metadata"):
        assert (
            api.tool("gmail_get_message", message_id=own.id, fmt=fmt).json()["code"] == "forbidden"
        )
    assert api.tool("gmail_get_message", message_id=ordinary.id).status_code == 200
    assert api.tool("read_email", message_id=own.id).json()["code"] == "forbidden"


def pages(api: Api, tool: str, query: str, limit: int, **given: Any) -> list[dict[str, Any]]:
    """Return all pages of a search; tokens are compared by whether there is one."""
    found: list[dict[str, Any]] = []
    token: dict[str, str] = {}
    while not found or token:
        page = api.tool(tool, query=query, max_results=limit, **given, **token).json()
        token = {"page_token": page.pop("next_page_token")} if "next_page_token" in page else {}
        found.append(page)
    return found


# A program that can tell a right guess from a wrong one finds a code in a minute, and signs in with it.
@pytest.mark.parametrize("limit", [1, 2, 3, 12, 14])
@pytest.mark.parametrize("sender", [SENDER, ADA])
def test_gmail_search_reveals_no_word_of_own_mail(
    gmail: GmailServer, alice: User, settings: Any, sender: str, limit: int
) -> None:
    settings.DEFAULT_FROM_EMAIL = sender
    api = make_api(alice, gmailbox.connected(gmail, alice))
    for number in range(12):
        gmail.deliver(ADA, gmailbox.letter(f"Known {number}"))
    gmail.deliver(ADA, marked(sender))
    gmail.deliver(ADA, gmailbox.letter("Known 12"))
    for tool in ("gmail_search_messages", "search_emails"):
        for known in ("Known", "12"):  # the own mail is among the others, or the last
            right, wrong = (
                pages(api, tool, f"{{{guess} subject:{known}}}", limit)
                for guess in ("ABCD", "QXZV")
            )
            assert right == wrong, (tool, known)


def test_token_of_a_search_leads_on_in_no_other_one(
    gmail: GmailServer, alice: User, settings: Any
) -> None:
    settings.DEFAULT_FROM_EMAIL = SENDER
    api = make_api(alice, gmailbox.connected(gmail, alice))
    gmail.deliver(ADA, gmailbox.letter("Known 0"))
    gmail.deliver(ADA, marked(SENDER))
    gmail.deliver(ADA, gmailbox.letter("Known 1"))
    for tool in ("gmail_search_messages", "search_emails"):
        right, wrong = (
            api.tool(tool, query=f"{{{guess} subject:1}}", max_results=1).json()["next_page_token"]
            for guess in ("ABCD", "QXZV")
        )
        assert len(right) == len(wrong)
        for token in (right, wrong):
            answer = api.tool(tool, query="subject:Known", max_results=1, page_token=token)
            assert answer.json()["code"] == "invalid_input", tool


@pytest.mark.parametrize("limit", [1, 2, 3])
@pytest.mark.parametrize("sender", [SENDER, ADA])
def test_graph_search_reveals_no_word_of_own_mail(
    graph: GraphServer, mailbox: Mailbox, alice: User, settings: Any, sender: str, limit: int
) -> None:
    settings.DEFAULT_FROM_EMAIL = sender
    api = make_api(alice, mailbox)
    for number in range(4):
        mail = letter(to=ADA, subject=f"Known {number}", sender=OUTSIDE)
        graph.deliver(ADA, mail.as_bytes()).shown["isRead"] = number == 0
    graph.deliver(ADA, marked(sender))
    graph.deliver(ADA, letter(to=ADA, subject="Known 4", sender=OUTSIDE).as_bytes())
    # The own mail is among the others, or the last, or unread before the only one that was read.
    for known, given in (("Known", {}), ('subject:"Known 4"', {}), ("Known", {"unread": False})):
        found, requests = [], []
        for guess in ("ABCD", "QXZV"):
            graph.hits.clear()
            found.append(pages(api, "search_emails", f"{guess} OR {known}", limit, **given))
            requests.append(len(graph.hits))
        right, wrong = found
        assert right == wrong, (known, given)
        if sender == SENDER:  # a second request would tell by its time
            assert requests[0] == requests[1] == len(right) - (not right[-1]["emails"])
        assert [len(page["emails"]) for page in right[:-1]] == [limit] * (len(right) - 1)


def test_graph_search_for_read_mail_compares_all_rows_at_once(
    graph: GraphServer, mailbox: Mailbox, alice: User, settings: Any
) -> None:
    """Own mail would push the last of fewer rows out, and another request would tell it by its time."""
    settings.DEFAULT_FROM_EMAIL = SENDER
    api = make_api(alice, mailbox)
    mail = letter(to=ADA, subject="Known", sender=OUTSIDE).as_bytes()
    graph.deliver(ADA, mail).shown["isRead"] = True
    for _ in range(SEARCHED_PAGES * (1 + SPARE) - 1):
        graph.deliver(ADA, mail)
    graph.deliver(ADA, marked(SENDER))
    for guess in ("ABCD", "QXZV"):
        graph.hits.clear()
        query = f"{guess} OR Known"
        page = api.tool("search_emails", query=query, unread=False, max_results=1).json()
        assert (len(page["emails"]), len(graph.hits)) == (1, 1), guess


@pytest.mark.parametrize("sender", [SENDER, ADA])
@pytest.mark.parametrize("given", [{"query": "code OR Known"}, {"newer_than_days": 3650}])
def test_graph_search_finds_a_mail_behind_many_own_ones(
    graph: GraphServer,
    mailbox: Mailbox,
    alice: User,
    settings: Any,
    sender: str,
    given: dict[str, Any],
) -> None:
    settings.DEFAULT_FROM_EMAIL = sender
    api = make_api(alice, mailbox)
    graph.deliver(ADA, letter(to=ADA, subject="Known", sender=OUTSIDE).as_bytes())
    for _ in range(40):
        graph.deliver(ADA, marked(sender))
    page = api.tool("search_emails", max_results=1, **given).json()
    assert [each["subject"] for each in page["emails"]] == ["Known"]


@pytest.mark.parametrize("sender", [SENDER, ADA, ACCOUNT])
def test_graph_mailbox_hides_own_mail(
    graph: GraphServer, mailbox: Mailbox, alice: User, settings: Any, sender: str
) -> None:
    settings.EMAIL_HOST_USER = ACCOUNT.title()
    settings.DEFAULT_FROM_EMAIL = SENDER if sender == ACCOUNT else sender
    graph.deliver(ADA, letter(to=ADA, sender=sender if sender == ADA else OUTSIDE).as_bytes())
    graph.deliver(ADA, marked(sender))
    own, ordinary = ids(mailbox)
    api = make_api(alice, mailbox)
    for answer in (
        api.tool("list_emails"),
        api.tool("search_emails", subject="e"),
        api.tool("search_emails", text="e"),
    ):
        assert answer.status_code == 200, answer.content
        assert b"ABCD-EFGH" not in answer.content
        assert own not in {row["id"] for row in answer.json()["emails"]}
    assert [row["id"] for row in api.tool("list_emails").json()["emails"]] == [ordinary]
    for tool in ("read_email", "read_thread", "reply_email", "forward_email", "draft_reply"):
        assert api.tool(tool, **filled(tool, own)).json()["code"] == "forbidden", tool
    assert api.tool("read_email", message_id=ordinary).status_code == 200


@pytest.mark.parametrize("sender", [SENDER, ADA])
def test_no_page_shows_the_code_of_somebody_to_a_member(
    graph: GraphServer, mailbox: Mailbox, bob: User, settings: Any, sender: str
) -> None:
    """Exchange may put mails of one subject into one conversation."""
    settings.DEFAULT_FROM_EMAIL = sender
    first = graph.deliver(ADA, letter(to=ADA, subject="Your code").as_bytes())
    graph.deliver(ADA, marked(sender), conversation=first.shown["internetMessageId"])
    api = make_api(bob, mailbox)
    (ordinary,) = api.tool("list_emails").json()["emails"]
    answer = api.tool("reply_email", message_id=ordinary["id"], comment="x", confirm=True)
    page = browser(bob).get(f"/actions/{answer.json()['action']['id']}/conversation/")
    assert "When do you come?" in page.content.decode()
    assert "ABCD-EFGH" not in page.content.decode()


# These act for a person, and return no mail that was read to a program. The kinds execute what was approved.
WITHOUT_A_PROGRAM = {
    "reading/folders.py",
    "reading/links.py",
    "reading/own_mail.py",
    "sending/kinds.py",
    "sending/revisions.py",
    "sending/surroundings.py",
    "sending/proposals.py",
    "providers/__init__.py",
}


def _users_of_provider_for() -> Iterator[str]:
    root = ROOT / "tools"
    kinds = {path.rpartition(".")[2] for path in settings.MAILHUB_KINDS.values()}
    for path, tree in parsed("provider_for"):
        outside = [each for each in tree.body if getattr(each, "name", "") not in kinds]
        names = {
            node.id for each in outside for node in ast.walk(each) if isinstance(node, ast.Name)
        }
        if path.is_relative_to(root) and "provider_for" in names:
            yield str(path.relative_to(root))


def test_tools_reach_a_mailbox_only_without_own_mail() -> None:
    assert set(_users_of_provider_for()) <= WITHOUT_A_PROGRAM


def test_new_provider_method_is_refused_until_it_is_named() -> None:
    class Newer:
        def read_subject(self, message_id: str) -> str:
            return "Your code is 123456"

        def list_folders(self) -> tuple[()]:
            return ()

    seen = WithoutOwnMail(cast("MailProvider", Newer()), uuid.uuid4())
    assert seen.list_folders() == ()
    with pytest.raises(AttributeError):
        seen.read_subject("1")
