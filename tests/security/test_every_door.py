"""Every URL, tool and scope of the product, taken from its own tables: the tests cover a new
one by themselves.
"""

import re
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from allauth.usersessions.models import UserSession
from django.core import serializers
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver
from django.urls.resolvers import RoutePattern
from django.utils import timezone

from accounts.models import SCOPES, Invitation, Mailbox, Role, User
from approvals.models import (
    NotificationChannel,
    PendingAction,
    ReviewText,
    SavedView,
    Webhook,
    WebhookDelivery,
)
from mailhub.agent.models import Message, Thread
from mailhub.middleware.no_store import CACHEABLE
from tests.acceptance.test_roles import TOOLS, called
from tests.conftest import Api, make_api
from tests.support.people.browser import browser
from tools.catalog.entries import TOOLS as CATALOG
from tools.models import Upload

pytestmark = pytest.mark.django_db(transaction=True)
CANARY = "Canary-4471"
ANY = r"[^/]+"

# Pages that are open without a sign-in. Everything else redirects to the sign-in, or refuses.
PUBLIC = {
    "sign_in": "It is the sign-in.",
    "account_login": "It is the sign-in, under the library's name.",
    "account_request_login_code": "It is a way to sign in, where mailhub sends mail.",
    "account_reset_password": "It mails a link to the address of the account, where mailhub sends mail.",
    "account_reset_password_done": "It says that a link may have been mailed.",
    "account_reset_password_from_key_done": "It says that the password is changed.",
    "account_inactive": "It says that an account is closed.",
    "socialaccount_login_cancelled": "It says that a sign-in was given up.",
    "admin:logout": "It ends a session, and there is none.",
    "api_docs": "It is documentation.",
    "oauth_server": "It is documentation, by which programs find the sign-in.",
    "oauth_resource": "It is documentation, by which programs find the sign-in.",
    "oauth_server_of": "It is documentation, by which programs find the sign-in.",
    "oauth_resource_of": "It is documentation, by which programs find the sign-in.",
    "oauth_revoke": "It only ends tokens, and answers the same for unknown ones (RFC 7009).",
    "api:openapi-json": "It is documentation.",
    "service_worker": "It is a script, the same for everybody.",
    "offline": "It says that there is no connection, and holds nothing of a person.",
    "healthz": "It says that the process answers.",
    "readyz": "It says in codes whether this process can work.",
    "statusz": "It says in codes whether mail can leave.",
}
# One white pixel.
GIF = "R0lGODlhAQABAIAAAP///wAAACwAAAAAAQABAAACAkQBADs="
# Arguments of URLs that name no row.
CHOICES = {
    "provider": "gmail",
    "provider_id": "sso",
    "uidb36": "1",
    "key": "sample",
    "app_label": "accounts",
    "path": "mcp",
    "page": "1",
}


def every_url(
    resolver: Any = None, before: str = "", spaces: tuple[str, ...] = ()
) -> Iterator[tuple[str, str]]:
    """Yield the name and the route of each view, with `<name>` in place of an argument."""
    for each in (resolver or get_resolver()).url_patterns:
        part = str(each.pattern)
        if isinstance(each.pattern, RoutePattern):
            part = re.sub(r"<(?:\w+:)?(\w+)>", r"<\1>", part)
        else:  # a regular expression
            part = re.sub(r"\(\?P(<\w+>)[^()]*\)", r"\1", part).strip("^$")
        route = before + part
        if isinstance(each, URLResolver):
            inner = (*spaces, each.namespace) if each.namespace else spaces
            yield from every_url(each, route, inner)
        elif isinstance(each, URLPattern):
            yield ":".join((*spaces, each.name or route)), route


class Belongings:
    """One row of Alice's of every kind that a URL can name."""

    def __init__(self, alice: User, mailbox: Mailbox, api: Api) -> None:
        file = {"name": "a.gif", "type": "image/gif", "content_base64": GIF}
        self.action = PendingAction.objects.get(
            pk=api.propose(subject=CANARY, body=CANARY, attachments=[file])
        )
        payload = self.action.current.payload
        assert payload
        token = alice.tokens.get()
        invitation = Invitation.objects.create(
            mailbox=mailbox,
            email="x@lovelace.example",
            role=Role.VIEWER,
            digest="0" * 64,
            invited_by=alice,
            expires_at=self.action.expires_at,
        )
        webhook = Webhook.objects.create(
            token=token, url=f"https://{CANARY}.example/", events=[], secret=""
        )
        delivery = WebhookDelivery.objects.create(
            webhook=webhook, event="action.proposed", action=self.action, at=timezone.now()
        )
        channel = NotificationChannel.objects.create(user=alice, kind="email", label=CANARY)
        thread = Thread.objects.create(user=alice, name="conversation-1", title=CANARY)
        Message.objects.create(thread=thread, author="person", text=CANARY)
        text = ReviewText.objects.create(
            mailbox=mailbox, purpose="reject", title=CANARY, text=CANARY
        )
        view = SavedView.objects.create(person=alice, name=CANARY, query="")
        upload = Upload.keep(
            owner=alice, owner_name="agent", name=CANARY, type="text/plain", content=b"x"
        )
        session = UserSession.objects.create(
            user=alice, ip="192.0.2.1", session_key="0" * 40, user_agent=CANARY
        )
        self.rows = [
            self.action,
            mailbox,
            token,
            invitation,
            webhook,
            channel,
            thread,
            view,
            text,
            upload,
            session,
            alice,
        ]
        self.names: dict[str, Any] = {
            "action_id": self.action.pk,
            "sha256": payload["attachments"][0]["sha256"],
            "mailbox_id": mailbox.pk,
            "user_id": alice.pk,
            "invitation_id": invitation.pk,
            "token_id": token.pk,
            "webhook_id": webhook.pk,
            "channel_id": channel.pk,
            "delivery_id": delivery.pk,
            "view_id": view.pk,
            "text_id": text.pk,
            "session_id": session.pk,
            "thread_id": thread.pk,
            "name": thread.name,
            "handle": upload.pk,
            "secret": "0" * 40,
            "pk": 1,
            "object_id": alice.pk,
            "content_type_id": 1,
            "url": "sample",
        }
        self.form = {
            "digest": self.action.digest,
            "revision": self.action.revision,
            "note": "n",
            "action": str(self.action.pk),
            "mailbox": str(mailbox.pk),
            "role": "manager",
            "email": "n@x.example",
            "chosen": str(self.action.pk),
            "draft_id": "1",
        }

    def address(self, route: str) -> str:
        names = CHOICES | {name: str(value) for name, value in self.names.items()}
        missing = set(re.findall(r"<(\w+)>", route)) - names.keys()
        assert not missing, f"{route}: give a sample of {missing}"
        return "/" + re.sub(r"<(\w+)>", lambda found: names[found[1]], route)

    def is_named_in(self, route: str) -> bool:
        return bool(set(re.findall(r"<(\w+)>", route)) & self.names.keys())

    def as_stored(self) -> str:
        return str(
            serializers.serialize("json", [type(row).objects.get(pk=row.pk) for row in self.rows])
        )


@pytest.fixture
def belongings(alice: User, mailbox: Mailbox, api: Api) -> Belongings:
    return Belongings(alice, mailbox, api)


def asked(
    client: Client, method: str, name: str, path: str, form: dict[str, Any]
) -> tuple[int, str, str]:
    """Return status, Location and text of an answer; do not wait for a stream. It is not stored."""
    client.raise_request_exception = False
    answer: Any = client.get(path) if method == "get" else client.post(path, form)
    assert is_not_stored(name, answer), name
    text = "" if answer.streaming else answer.content.decode("utf-8", "replace")
    return answer.status_code, answer.get("Location", ""), text


def is_not_stored(name: str, answer: Any) -> bool:
    return "no-store" in answer.get("Cache-Control", "") or name.split(":")[-1] in CACHEABLE


URLS = sorted(set(every_url()))


@pytest.mark.parametrize("method", ["get", "post"])
def test_every_url_requires_a_sign_in(method: str, belongings: Belongings) -> None:
    before, open_doors = belongings.as_stored(), []
    for name, route in URLS:
        status, leads, text = asked(
            Client(), method, name, belongings.address(route), belongings.form
        )
        assert status != 500, name
        assert CANARY not in text, name
        to_the_sign_in = status in (301, 302) and re.match(
            r"/(account/)?sign-in/|/admin/login/", leads
        )
        if status < 400 and not to_the_sign_in and name not in PUBLIC:
            open_doors.append((name, status, leads))
    assert open_doors == [], "ask for a sign-in, or give a reason in PUBLIC"
    assert belongings.as_stored() == before


@pytest.mark.parametrize("method", ["get", "post"])
@pytest.mark.parametrize("caller", ["browser", "token"])
def test_every_url_refuses_the_ids_of_another_person(
    method: str, caller: str, belongings: Belongings, charlie: User, foreign_api: Api
) -> None:
    before, open_doors = belongings.as_stored(), []
    program = Client(headers={"Authorization": f"Bearer {foreign_api.secret}"})
    for name, route in URLS:
        # One of the addresses signs out.
        client = browser(charlie) if caller == "browser" else program
        status, leads, text = asked(
            client, method, name, belongings.address(route), belongings.form
        )
        assert status != 500, name
        assert CANARY not in text, name
        elsewhere = status in (301, 302) and leads.startswith(("/sign-in/", "/admin/login/"))
        if belongings.is_named_in(route) and status < 400 and not elsewhere and name not in PUBLIC:
            open_doors.append((name, status, leads))
    assert open_doors == []
    assert belongings.as_stored() == before


def test_every_response_limits_the_browser(
    belongings: Belongings, alice: User, settings: Any
) -> None:
    """Check headers and cookies as behind TLS, for pages, programs and refusals alike."""
    settings.SECURE_HSTS_SECONDS = 31_536_000
    User.objects.filter(pk=alice.pk).update(is_staff=True, is_superuser=True)
    missing: list[Any] = []
    cookies: dict[str, Any] = {}
    window = browser(alice)
    window.raise_request_exception = False
    for name, route in URLS:
        answer: Any = window.get(belongings.address(route), secure=True)
        policy = answer.get("Content-Security-Policy", "")
        if not (
            is_not_stored(name, answer)
            and answer.get("X-Content-Type-Options") == "nosniff"
            and answer.get("Referrer-Policy") in ("same-origin", "no-referrer")
            and answer.get("Strict-Transport-Security") == "max-age=31536000"
            and "Access-Control-Allow-Origin" not in answer
            and "frame-ancestors" in policy
            and "default-src 'none'" in policy
            and "unsafe" not in policy.partition("script-src")[2].partition(";")[0]
        ):
            missing.append((name, answer.status_code, policy))
        cookies |= dict(answer.cookies)
    assert missing == []
    assert {morsel["samesite"] for morsel in cookies.values()} == {"Lax"}
    kept = [name for name, morsel in cookies.items() if morsel.value and not morsel["httponly"]]
    assert kept == ["csrftoken"]


def test_page_with_a_rotated_token_is_not_stored(alice: User, api: Api) -> None:
    answer = browser(alice).post(f"/tokens/{alice.tokens.get().pk}/rotate/")
    assert answer.context["secret"]
    assert "no-store" in answer["Cache-Control"]


def test_list_of_public_urls_names_only_existing_ones() -> None:
    assert PUBLIC.keys() <= {name for name, _ in URLS}
    assert len(URLS) > 180


# test_mcp.py compares the refusal of each tool over both.
@pytest.mark.parametrize("surface", ["rest", pytest.param("mcp", marks=pytest.mark.long)])
@pytest.mark.parametrize("scope", [*SCOPES, None])
def test_every_tool_requires_its_scope(
    scope: str | None, surface: str, alice: User, mailbox: Mailbox
) -> None:
    """Give a token one scope, or all but one: only the tool's own scope opens it."""
    User.objects.filter(pk=alice.pk).update(is_staff=True)  # Microsoft 365 is for staff
    without = [each for each in SCOPES if each != scope]
    one = make_api(alice, mailbox, name="one", scopes=[scope] if scope else [])
    others = make_api(alice, mailbox, name="others", scopes=without if scope else list(SCOPES))
    for name, tool in CATALOG.items():
        given = (
            {"mailbox": str(mailbox.pk), **TOOLS[name][0]}
            if name in TOOLS
            else {"action_id": str(uuid.uuid4())}
        )
        given = {} if name in ("list_mailboxes", "list_actions") else given
        assert tool.scope in SCOPES
        assert (called(surface, one.secret, name, given) == "forbidden") is (tool.scope != scope), (
            name
        )
        assert (called(surface, others.secret, name, given) == "forbidden") is (
            tool.scope == scope
        ), name


def test_ids_open_pages_for_their_own_person(belongings: Belongings, alice: User) -> None:
    """Check the control of the walk above: the objects that are refused to strangers exist."""
    answers = {}
    for name, route in URLS:
        if belongings.is_named_in(route) and not name.startswith("admin:"):
            answers[name] = asked(browser(alice), "get", name, belongings.address(route), {})
    shown = {
        name for name, (status, _, text) in answers.items() if status == 200 and CANARY in text
    }
    assert {"review", "peek", "whole_text", "webhook", "agent_thread"} <= shown
    assert {"mailbox", "rules"} <= {
        name for name, (status, _, _) in answers.items() if status == 200
    }


def test_no_token_decides_by_any_url(api: Api, belongings: Belongings) -> None:
    """Post the digest and revision to each URL of the action, with a token that has every scope of
    the mailbox's manager.
    """
    program = Client(headers={"Authorization": f"Bearer {api.secret}"})
    for name, route in URLS:
        if "<action_id>" in route and name != "api:cancel_action":
            asked(program, "post", name, belongings.address(route), belongings.form)
    belongings.action.refresh_from_db()
    assert belongings.action.status == "pending"
    assert not belongings.action.decisions.exists()
