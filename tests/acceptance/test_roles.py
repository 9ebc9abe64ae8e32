"""Permissions of each role, on one's own mailbox and on other people's, on pages, over REST and
over MCP.

One table lists each permission of a role, and everything else is refused. Strangers get the same
404 for an object of somebody else as for one that does not exist.
"""

import base64
import hashlib
import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import transaction
from django.urls import URLResolver, get_resolver

from accounts.access.auth import caller_of_token
from accounts.access.caller import Caller
from accounts.models import SCOPES, ApiToken, Invitation, Membership, Role, User
from approvals.models import PendingAction, ReviewText
from tests.conftest import Api, make_mailbox
from tests.support.people.browser import RULES, browser
from tests.support.servers.memory import MemoryServer
from tests.support.tools import fill
from tools.catalog.entries import TOOLS as CATALOG
from tools.surfaces.mcp import Visit, _call

pytestmark = pytest.mark.django_db
ROLES = [*Role, None]
UNKNOWN = str(uuid.UUID(int=7))
# One white pixel.
GIF = "R0lGODlhAQABAIAAAP///wAAACwAAAAAAQABAAACAkQBADs="


@contextmanager
def undone() -> Iterator[None]:
    """Roll the block back: each line of the table begins in the same state."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


class Scene:
    """Ada's mailbox with one waiting action, a second member, and a user with the tested role."""

    def __init__(self, server: MemoryServer, role: Role | None) -> None:
        owner, self.other, self.person = (
            User.objects.create_user(f"{name}@lovelace.example") for name in ("ada", "oli", "pat")
        )
        self.mailbox = make_mailbox("ada@lovelace.example", server, owner)
        own = make_mailbox("pat@lovelace.example", server, self.person)
        Membership.objects.create(mailbox=self.mailbox, user=self.other, role=Role.VIEWER)
        if role is not None:
            Membership.objects.create(mailbox=self.mailbox, user=self.person, role=role)
        _, secret = ApiToken.issue(
            user=owner, name="agent", scopes=list(SCOPES), mailboxes=[self.mailbox]
        )
        file = {"name": "a.gif", "type": "image/gif", "content_base64": GIF}
        self.action = PendingAction.objects.get(pk=Api(secret=secret).propose(attachments=[file]))
        self.invitation = Invitation.objects.create(
            mailbox=self.mailbox,
            email="x@lovelace.example",
            role=Role.VIEWER,
            digest="0" * 64,
            invited_by=owner,
            expires_at=self.action.expires_at,
        )
        self.text = ReviewText.objects.create(
            mailbox=self.mailbox, purpose=ReviewText.Purpose.REJECT, title="Tone", text="Kinder."
        )
        bound = [self.mailbox, own] if role else [own]
        _, self.secret = ApiToken.issue(
            user=self.person, name="mine", scopes=list(SCOPES), mailboxes=bound
        )
        self.window = browser(self.person)


SHOWN = {"digest": "{digest}", "revision": 1}
# Verb: method, path, form, and the least role that may do it. A viewer may GET pages.
PAGES: dict[str, tuple[str, str, dict[str, Any], Role]] = {
    "look at the action": ("get", "/actions/{action}/", {}, Role.VIEWER),
    "look at its body": ("get", "/actions/{action}/body/", {}, Role.VIEWER),
    "peek at it": ("get", "/actions/{action}/peek/", {}, Role.VIEWER),
    "look at its whole text": ("get", "/actions/{action}/text/", {}, Role.VIEWER),
    "look at its source": ("get", "/actions/{action}/source/", {}, Role.VIEWER),
    "look at the conversation": ("get", "/actions/{action}/conversation/", {}, Role.VIEWER),
    "open a file": ("get", "/actions/{action}/files/{file}/", {}, Role.VIEWER),
    "look at a page of a file": ("get", "/actions/{action}/files/{file}/1.png", {}, Role.VIEWER),
    "download a file": ("get", "/actions/{action}/files/{file}/download/", {}, Role.VIEWER),
    "open a received file": ("get", "/actions/{action}/received/", {}, Role.VIEWER),
    "look at a page of it": ("get", "/actions/{action}/received/1.png", {}, Role.VIEWER),
    "download it": ("get", "/actions/{action}/received/download/", {}, Role.VIEWER),
    "ask who receives it": ("get", "/actions/{action}/recipients/", {}, Role.VIEWER),
    "read its story": ("get", "/actions/{action}/story/", {}, Role.MANAGER),
    "say that one looks": ("post", "/actions/{action}/presence/", {}, Role.VIEWER),
    "look at it in the line": ("get", "/line/{action}/", {}, Role.VIEWER),
    "comment": ("post", "/actions/{action}/comments/", {"text": "Hello"}, Role.APPROVER),
    "assign": ("post", "/actions/{action}/assign/", {"person": "{person}"}, Role.APPROVER),
    "edit": ("post", "/actions/{action}/edit/", {**SHOWN, "subject": "s"}, Role.APPROVER),
    "ask back": ("post", "/actions/{action}/ask_back/", {**SHOWN, "note": "why?"}, Role.APPROVER),
    "rule": ("post", "/actions/{action}/resolve/", {"ruling": "sent"}, Role.APPROVER),
    "approve": ("post", "/actions/{action}/approve/", SHOWN, Role.APPROVER),
    "reject": ("post", "/actions/{action}/reject/", {**SHOWN, "note": "no"}, Role.APPROVER),
    "cancel": ("post", "/actions/{action}/cancel/", SHOWN, Role.APPROVER),
    "undo": ("post", "/actions/{action}/undo/", {}, Role.APPROVER),
    "look at the mailbox": ("get", "/mailboxes/{mailbox}/", {}, Role.VIEWER),
    "see the rules' form": ("get", "/mailboxes/{mailbox}/rules/", {}, Role.MANAGER),
    "change the rules": (
        "post",
        "/mailboxes/{mailbox}/rules/",
        {**RULES, "daily_cap": 5},
        Role.MANAGER,
    ),
    "see the folders": ("get", "/mailboxes/{mailbox}/folders/", {}, Role.MANAGER),
    "choose folders": ("post", "/mailboxes/{mailbox}/folders/", {}, Role.MANAGER),
    "see the calls of the chat": ("get", "/mailboxes/{mailbox}/chat/", {}, Role.MANAGER),
    "see the texts": ("get", "/mailboxes/{mailbox}/texts/", {}, Role.MANAGER),
    "see a text": ("get", "/mailboxes/{mailbox}/texts/{text}/", {}, Role.MANAGER),
    "change a text": (
        "post",
        "/mailboxes/{mailbox}/texts/{text}/",
        {"purpose": "reject", "title": "Tone", "words": "Kinder, please."},
        Role.MANAGER,
    ),
    "remove a text": ("post", "/mailboxes/{mailbox}/texts/{text}/remove/", {}, Role.MANAGER),
    "pause": ("post", "/mailboxes/{mailbox}/pause/", {"pause": "on"}, Role.MANAGER),
    "invite": (
        "post",
        "/mailboxes/{mailbox}/invite/",
        {"email": "n@x.example", "role": "viewer"},
        Role.MANAGER,
    ),
    "withdraw an invitation": (
        "post",
        "/mailboxes/{mailbox}/invitations/{invitation}/withdraw/",
        {},
        Role.MANAGER,
    ),
    "change a role": (
        "post",
        "/mailboxes/{mailbox}/members/{other}/role/",
        {"role": "manager"},
        Role.MANAGER,
    ),
    "remove a member": ("post", "/mailboxes/{mailbox}/members/{other}/remove/", {}, Role.MANAGER),
    "leave": ("post", "/mailboxes/{mailbox}/members/{person}/remove/", {}, Role.VIEWER),
    "disconnect": ("post", "/mailboxes/{mailbox}/disconnect/", {}, Role.MANAGER),
}
# Refused with another status than 403 although the role suffices: there is nothing to undo, no HTML
# to show, and no folder to choose on a server that is not IMAP.
OTHERWISE = {
    "see the folders": 404,
    "choose folders": 404,
    "undo": 409,
    "look at its body": 404,
    "look at the conversation": 404,
    "open a received file": 404,
    "look at a page of it": 404,
    "download it": 404,
    "rule": 409,
}

WITHOUT_A_MAILBOX = {"list_mailboxes", "get_action", "list_actions", "cancel_action"}
NO_SUCH: dict[str, Callable[[], str]] = {
    name: lambda: "no-such-id" for name in ("message_id", "thread_id", "draft_id")
}
# The tools that take a mailbox: arguments, and the least role. A viewer reads and changes nothing.
TOOLS = {
    name: (fill(name, NO_SUCH), Role.VIEWER if tool.read_only else Role.PROPOSER)
    for name, tool in CATALOG.items()
    if name not in WITHOUT_A_MAILBOX
}
# Allowed by the role, and then refused because this mailbox or this server has no such feature.
NOT_HERE = {
    "gmail_search_messages": "invalid_input",
    "gmail_get_message": "invalid_input",
    "m365_run_command": "transient",
}


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.value if role else "stranger")
def test_role_does_on_pages_only_what_the_table_allows(
    server: MemoryServer, role: Role | None
) -> None:
    scene = Scene(server, role)
    names = {
        "action": scene.action.pk,
        "digest": scene.action.digest,
        "mailbox": scene.mailbox.pk,
        "other": scene.other.pk,
        "person": scene.person.pk,
        "invitation": scene.invitation.pk,
        "text": scene.text.pk,
        "file": hashlib.sha256(base64.b64decode(GIF)).hexdigest(),
    }
    for verb, (method, path, form, least) in PAGES.items():
        with undone():
            given = {name: str(value).format(**names) for name, value in form.items()}
            answer = getattr(scene.window, method)(path.format(**names), given)
            if role is None:
                expected: tuple[int, ...] = (404,)
            elif not role.covers(least):
                expected = (403, 404) if verb == "cancel" else (403,)
            else:
                expected = (OTHERWISE[verb],) if verb in OTHERWISE else (200, 302)
            assert answer.status_code in expected, f"{verb} as {role}: {answer.status_code}"
            if role is None and "{" in path:
                nothing = {
                    name: UNKNOWN if len(str(value)) == 36 else 999_999
                    for name, value in names.items()
                }
                unknown = getattr(scene.window, method)(path.format(**nothing), given)
                assert unknown.status_code == 404, verb
                assert unknown.content == answer.content, verb


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.value if role else "stranger")
@pytest.mark.parametrize("surface", ["rest", "mcp"])
def test_token_does_only_what_the_role_of_its_owner_allows(
    server: MemoryServer, role: Role | None, surface: str
) -> None:
    scene = Scene(server, role)
    User.objects.update(is_staff=True)  # a tool is for the programs of staff
    for tool, (arguments, least) in TOOLS.items():
        assert getattr(CATALOG[tool], "need", least) == least, tool
        code = called(surface, scene.secret, tool, {**arguments, "mailbox": str(scene.mailbox.pk)})
        if role is None:
            assert code == "not_found", tool
            unknown = called(surface, scene.secret, tool, {**arguments, "mailbox": UNKNOWN})
            assert unknown == code, tool
        elif not role.covers(least):
            assert code == "forbidden", f"{tool} as {role}"
        elif tool in NOT_HERE:
            assert code == NOT_HERE[tool], tool
        else:
            assert code in ("ok", "not_found"), f"{tool} as {role}: {code}"
            assert (code == "not_found") is ("no-such" in str(arguments)), tool
    # An action is visible to the token that proposed it and, on pages, to the members; to no other
    # token.
    for tool in ("get_action", "cancel_action"):
        assert (
            called(surface, scene.secret, tool, {"action_id": str(scene.action.pk)}) == "not_found"
        )
    assert called(surface, scene.secret, "list_actions", {}) == "ok"


def test_token_reaches_only_its_bound_mailboxes(server: MemoryServer) -> None:
    scene = Scene(server, Role.MANAGER)
    _, secret = ApiToken.issue(user=scene.person, name="narrow", scopes=list(SCOPES), mailboxes=[])
    for surface in ("rest", "mcp"):
        assert (
            called(surface, secret, "list_emails", {"mailbox": str(scene.mailbox.pk)})
            == "not_found"
        )


def called(surface: str, secret: str, tool: str, arguments: dict[str, Any]) -> str:
    """Call a tool over REST or MCP, and return "ok" or the code of the problem."""
    if surface == "rest":
        answer = Api(secret=secret).tool(tool, **arguments)
        return "ok" if answer.status_code in (200, 202) else str(json.loads(answer.content)["code"])

    def caller() -> Caller:
        return caller_of_token(secret, surface="mcp")

    visit = Visit(caller=caller, again=caller, toolsets=frozenset())
    result = _call(visit, tool, arguments)
    text = json.loads(result.content[0].text)  # type: ignore[union-attr]
    return str(text["code"]) if result.is_error else "ok"


def test_every_mailbox_or_action_address_is_in_the_table() -> None:
    """Check that the table gives every page a role, also a page that is added later."""
    routes = {
        route for route in _routes(get_resolver()) if "mailbox_id" in route or "action_id" in route
    }
    listed = {path.lstrip("/") for _, path, _, _ in PAGES.values()} | ELSEWHERE
    plain = {
        "mailbox_id": "{mailbox}",
        "action_id": "{action}",
        "user_id": "{other}",
        "invitation_id": "{invitation}",
        "text_id": "{text}",
        "sha256": "{file}",
        "page": "1",
    }
    for route in routes:
        shown = route
        for name, put in plain.items():
            for kind in ("uuid", "int", "str"):
                shown = shown.replace(f"<{kind}:{name}>", put)
        assert shown in listed, f"{route} is in no table"


# Addresses of REST, which are covered through the tools above and in test_tenancy.py.
ELSEWHERE = {
    "api/v1/actions/<action_id>",
    "api/v1/actions/<action_id>/cancel",
    "api/v1/mailboxes/<mailbox_id>",
}


def _routes(resolver: URLResolver, prefix: str = "") -> list[str]:
    found: list[str] = []
    for each in resolver.url_patterns:
        here = prefix + str(each.pattern)
        found += _routes(each, here) if isinstance(each, URLResolver) else [here]
    return found
