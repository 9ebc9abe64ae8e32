"""A right that is taken and given back wakes nothing that was handed out before.

The other half of `test_derived_rights.py`: rights are taken away and given back on the pages, and then
everything is tried that was handed out before.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from io import StringIO
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.core.management import call_command
from django.test import Client
from django.utils import timezone
from pytest_httpserver import HTTPServer
from werkzeug import Response

from accounts.access.caller import Caller
from accounts.connect.connecting import connect_mailbox, load_access
from accounts.models import SCOPES, ApiToken, Membership, Role, SignInLink, User
from approvals.models import NotificationChannel, PendingAction
from approvals.pages.mailboxes import members
from tests.approvals.webhook_listener import httpserver, told
from tests.conftest import Api, Reviewer, make_api
from tests.security.test_derived_rights import DEVICE, Held, heard, held
from tests.support.people.browser import browser
from tests.support.servers.memory import MemoryServer
from tests.support.work import work
from tools.reading import links

__all__ = ["heard", "held", "httpserver"]
pytestmark = pytest.mark.django_db(transaction=True)
DAY = timedelta(days=1)


@dataclass(kw_only=True)
class More:
    """The things that Alice holds beside the program: as a member, a manager, a person and staff."""

    held: Held
    bob: Reviewer
    operator: Client
    heard: list[Any]
    server: MemoryServer
    token: ApiToken
    by_token: Api
    channel: str
    by_reader: Api  # holds no right that a viewer lacks
    link_of_chat: str
    invitation: str
    sign_in_link: str
    window: Client


def _manage(more: More, path: str, **form: Any) -> None:
    page = f"/mailboxes/{more.held.mailbox.pk}/{path}"
    assert browser(more.bob.user).post(page, form).status_code == 302


def _invite(more: More) -> None:
    mailbox, alice = more.held.mailbox, more.held.alice
    secret = members.invite(
        mailbox=mailbox, person=more.bob.user, email=alice.email, role=Role.MANAGER
    )
    assert browser(alice).post(f"/invitations/{secret}/").status_code == 302


def lower_and_raise_the_role(more: More) -> None:
    for role in ("viewer", "manager"):
        _manage(more, f"members/{more.held.alice.pk}/role/", role=role)


def remove_and_invite(more: More) -> None:
    _manage(more, f"members/{more.held.alice.pk}/remove/")
    _invite(more)


def leave_and_join(more: More) -> None:
    alice, mailbox = more.held.alice, more.held.mailbox
    browser(alice).post(f"/mailboxes/{mailbox.pk}/members/{alice.pk}/remove/")
    _invite(more)


def end_the_days_and_clear_them(more: More) -> None:
    path, yesterday = f"members/{more.held.alice.pk}/role/", timezone.localdate() - DAY
    _manage(more, path, role="manager", last_day=str(yesterday))
    _manage(more, path, role="manager")


def end_the_days_and_invite(more: More) -> None:
    yesterday = timezone.localdate() - DAY
    path = f"members/{more.held.alice.pk}/role/"
    _manage(more, path, role="manager", last_day=str(yesterday))
    _invite(more)


def begin_the_days_later_and_clear_them(more: More) -> None:
    path, tomorrow = f"members/{more.held.alice.pk}/role/", timezone.localdate() + DAY
    _manage(more, path, role="manager", first_day=str(tomorrow))
    _manage(more, path, role="manager")


def begin_the_days_later_and_wait(more: More) -> None:
    path, tomorrow = f"members/{more.held.alice.pk}/role/", timezone.localdate() + DAY
    _manage(more, path, role="manager", first_day=str(tomorrow))
    Membership.on_any_day.filter(user=more.held.alice).update(starts_at=timezone.now())


def _set_rights(more: More, **rights: str) -> None:
    form = {"first_name": "Alice", "last_name": "", "_save": "Save", **rights}
    page = f"/admin/accounts/user/{more.held.alice.pk}/change/"
    assert more.operator.post(page, form).status_code == 302


def close_and_open_the_account(more: More) -> None:
    _set_rights(more, is_staff="on")
    _set_rights(more, is_staff="on", is_active="on")


def leave_and_join_the_staff(more: More) -> None:
    _set_rights(more, is_active="on")
    _set_rights(more, is_active="on", is_staff="on")


def recover_the_access(more: More) -> None:
    call_command("recover_person", user=more.held.alice.email, stdout=StringIO())


def disconnect_and_connect_the_mailbox(more: More) -> None:
    mailbox = more.held.mailbox
    access = load_access(mailbox)
    _manage(more, "disconnect/")
    connect_mailbox(
        owner=more.bob.user,
        address=mailbox.address,
        provider=mailbox.provider,
        secrets=dict(access),
        scopes=mailbox.scopes,
    )


def let_it_expire_and_rotate(more: More) -> None:
    now = timezone.now()
    ApiToken.objects.filter(pk=more.token.pk).update(created_at=now - DAY, expires_at=now)
    page = browser(more.held.alice).post(f"/tokens/{more.token.pk}/rotate/")
    more.by_token = Api(secret=page.context["secret"])


def _reads(more: More, api: Api) -> bool:
    answer = api.tool("list_emails", mailbox=str(more.held.mailbox.pk))
    return bool(answer.status_code == 200)


def _reads_by(more: More, answer: Any) -> bool:
    return answer.status_code == 200 and _reads(more, Api(secret=answer.json()["access_token"]))


def _writes(more: More, api: Api, tool: str) -> bool:
    asked: dict[str, Any] = {"to": ["m@x.example"], "subject": "New", "body": "New"}
    if tool == "send_email":
        asked["confirm"] = True
    answer = api.tool(tool, mailbox=str(more.held.mailbox.pk), **asked)
    return answer.status_code in (200, 201, 202)


def _is_told(more: More, path: str) -> bool:
    """Return True if this address has heard of anything since the rights came back."""
    Client().post("/sign-in/", {"login": "alice@lovelace.example", "password": "wrong"})
    for action in (more.held.followed, more.held.other):
        if PendingAction.objects.get(pk=action).status == "pending":
            assert more.bob.decide(action, "reject", note="No").status_code == 302
    told()
    return path in [at for at, _ in more.heard]


def _gets_a_test(more: More) -> bool:
    browser(more.held.alice).post(f"/notifications/{more.channel}/test/")
    return "/chat" in [at for at, _ in more.heard]


def _leaves(more: More) -> bool:
    before = len(more.server.ledger)
    work()
    return len(more.server.ledger) > before


def _sign_in_link(person: User) -> str:
    return f"/sign-in/{SignInLink.issue(user=person, lifetime=DAY)}/"


def _hear(heard: list[Any], request: Any) -> Response:
    heard.append((request.path, b""))
    return Response(status=200)


# Everything that was handed out, and a use of it that says whether it works.
HANDED_OUT: dict[str, Callable[[More], bool]] = {
    "reads": lambda more: _reads(more, more.by_token),
    "drafts": lambda more: _writes(more, more.by_token, "create_draft"),
    "proposals": lambda more: _writes(more, more.by_token, "send_email"),
    "reads of a reader": lambda more: _reads(more, more.by_reader),
    "access token": lambda more: _reads(more, more.held.api),
    "refresh token": lambda more: _reads_by(
        more, more.held.program.refresh(more.held.tokens["refresh_token"])
    ),
    "code": lambda more: _reads_by(more, more.held.program.exchange(more.held.code)),
    "device code": lambda more: _reads_by(
        more, more.held.program.token(grant_type=DEVICE, device_code=more.held.device_code)
    ),
    "link": lambda more: Client().get(more.held.link).status_code == 200,
    "link of the chat": lambda more: Client().get(more.link_of_chat).status_code == 200,
    "approval": _leaves,
    "webhook": lambda more: _is_told(more, "/hook"),
    "callback": lambda more: _is_told(more, "/callback"),
    "webhook of the token": lambda more: _is_told(more, "/desk"),
    "invitation": lambda more: Client().post(more.invitation).status_code == 302,
    "commands": lambda more: (
        more.by_token.tool("m365_run_command", command="m365 status").status_code == 503
    ),
    "security webhook": lambda more: _is_told(more, "/security"),
    "chat service": _gets_a_test,
    "session": lambda more: more.window.get("/mailboxes/").status_code == 200,
    "sign-in link": lambda more: Client().post(more.sign_in_link).status_code == 302,
}
OF_STAFF = {"commands", "security webhook"}
OF_A_PERSON = {*OF_STAFF, "chat service", "session", "sign-in link"}
OF_A_MEMBER = HANDED_OUT.keys() - OF_A_PERSON
# The things that rest on the right that is taken and given back: a person must give them again.
ENDED: dict[Callable[[More], None], set[str]] = {
    lower_and_raise_the_role: OF_A_MEMBER - {"reads of a reader"},
    remove_and_invite: OF_A_MEMBER,
    leave_and_join: OF_A_MEMBER,
    end_the_days_and_clear_them: OF_A_MEMBER,
    end_the_days_and_invite: OF_A_MEMBER,
    begin_the_days_later_and_clear_them: OF_A_MEMBER,
    close_and_open_the_account: set(HANDED_OUT),
    recover_the_access: {
        "approval",
        "chat service",
        "link of the chat",
        "session",
        "sign-in link",
    },
    leave_and_join_the_staff: {*OF_STAFF, "approval", "link of the chat"},
    # The exceptions. A date that was set in advance takes nothing: the manager has already said
    # when the rights return. The new period ends approvals and invitations nevertheless.
    begin_the_days_later_and_wait: {"approval", "invitation"},
    # A disconnection takes mailhub's access to the provider, and no right of a member or program.
    disconnect_and_connect_the_mailbox: {"approval"},
    # Its person renews this token with all that belongs to it; the old secret has ended.
    let_it_expire_and_rotate: set(),
}


@pytest.fixture
def more(
    held: Held,
    heard: list[Any],
    alice: User,
    bob: User,
    httpserver: HTTPServer,
    server: MemoryServer,
) -> More:
    operator = User.objects.create_superuser("operator@lovelace.example")
    User.objects.filter(pk=alice.pk).update(is_staff=True)
    alice.refresh_from_db()
    for path in ("/chat", "/desk", "/security"):
        httpserver.expect_request(path).respond_with_handler(lambda request: _hear(heard, request))
    token, secret = ApiToken.issue(
        user=alice, name="desk", scopes=list(SCOPES), mailboxes=[held.mailbox]
    )
    by_token, on = Api(secret=secret), {"mailbox": str(held.mailbox.pk)}
    assert by_token.post("/webhooks", {"url": httpserver.url_for("/desk")}).status_code == 201
    form = {"token": str(token.pk), "url": httpserver.url_for("/security"), "events": ["security"]}
    assert browser(alice).post("/webhooks/new/", form).status_code == 200
    asked = {"message_id": held.message_id, **on}
    (file,) = by_token.tool("list_attachments", **asked).json()["attachments"]
    url, _ = links.issue(
        Caller.chat_of(alice),
        held.mailbox,
        message_id=held.message_id,
        attachment_id=file["id"],
    )
    service = httpserver.url_for("/chat").replace("http:", "json:")
    added = browser(alice).post("/notifications/chat/", {"address": service, "label": ""})
    assert added.status_code == 302
    invitation = members.invite(
        mailbox=held.mailbox, person=alice, email="new@x.example", role=Role.VIEWER
    )
    approved = make_api(bob, held.mailbox, name="other").propose(**on)
    assert Reviewer.signed_in(alice).decide(approved, "approve").status_code == 302
    window = Client()
    window.post(_sign_in_link(alice))
    return More(
        held=held,
        bob=Reviewer.signed_in(bob),
        operator=browser(operator),
        heard=heard,
        server=server,
        token=token,
        by_token=by_token,
        channel=str(NotificationChannel.objects.get().pk),
        by_reader=make_api(alice, held.mailbox, name="reader", scopes=["mail:read"]),
        link_of_chat=urlsplit(url).path,
        invitation=f"/invitations/{invitation}/",
        sign_in_link=_sign_in_link(alice),
        window=window,
    )


# A role that is lowered and a member who is removed stand for the others.
LIKE_ANOTHER = {
    leave_and_join,
    end_the_days_and_clear_them,
    end_the_days_and_invite,
    begin_the_days_later_and_clear_them,
}


@pytest.mark.parametrize(
    "take_and_give",
    [
        None,
        *(pytest.param(each, marks=[pytest.mark.long] * (each in LIKE_ANOTHER)) for each in ENDED),
    ],
)
def test_returned_right_wakes_nothing_from_before(
    more: More, take_and_give: Callable[[More], None] | None
) -> None:
    if take_and_give is not None:
        take_and_give(more)
    works = {name for name, is_usable in HANDED_OUT.items() if is_usable(more)}
    ended = ENDED[take_and_give] if take_and_give else set()
    assert works == HANDED_OUT.keys() - ended
