"""Every page of the product with content: `furnish` creates the content, and lists how each page is
opened.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from django.core.exceptions import BadRequest, PermissionDenied
from django.db.models.functions import Now
from django.http import HttpRequest, HttpResponse
from django.urls import include, path
from django.utils import timezone
from playwright.sync_api import Page

from accounts.models import ApiToken, Mailbox, Membership, Role, SignInLink, User
from approvals.core.types import BEFORE_WIRE, ApprovedAction, Failure, Outcome, Response, get_kind
from approvals.gate import decide, revise, watches
from approvals.gate.execute import execute
from approvals.models import PendingAction, ReviewText, Webhook, WebhookDelivery
from approvals.pages import discussion
from approvals.pages.mailboxes import members
from approvals.reports.steps import EVENTS
from tests.approvals.conftest import approve
from tests.approvals.kinds import Script, handed_over
from tests.browser.presses import (
    UNSEALED,
    add_webhook,
    framed,
    invite,
    make_token,
    pressed,
    refused_mail,
    several,
    several_approved,
    stale,
    wrong_chat,
    wrong_edit,
    wrong_rules,
)
from tests.browser.program_pages import connect_programs, device
from tests.conftest import Api, make_mailbox
from tests.support.people.office import letter
from tests.support.servers.memory import MemoryServer

# Alice manages a mailbox, Vera may only view it, Charlie has no mailbox, nobody is not signed in,
# and Alice's sign-in was long ago.
Who = Literal["alice", "vera", "charlie", "nobody", "alice, long ago"]


@dataclass(frozen=True, kw_only=True)
class View:
    """A page as one user sees it; `then` goes on from its address to a page that only a form leads
    to.
    """

    who: Who
    address: str
    then: Callable[[Page], None] = lambda page: None
    name: str = ""

    def __str__(self) -> str:
        return f"{self.name or self.address} ({self.who})"


def broken(request: HttpRequest, error: int) -> HttpResponse:
    raise {400: BadRequest, 403: PermissionDenied, 500: RuntimeError}[error]()


# With these URLs in place of mailhub.urls the error pages can be requested.
urlpatterns = [path("broken/<int:error>/", broken), path("", include("mailhub.urls"))]
QUEUE = [
    "",
    "tab=leaving",
    "tab=unknown",
    "tab=sent",
    "tab=failed",
    "tab=rejected",
    "tab=expired",
    "q=nothing&warned=1",
]
AROUND = [
    "/keyboard/", "/compose/", "/drafts/", "/mailboxes/", "/mailboxes/connect/", "/mailboxes/connect/imap/",
    "/mailboxes/connect/microsoft/?address=alice@lovelace.example",
    "/mailboxes/connect/address/?address=office@lovelace.example&provider=imap",
    "/tokens/", "/tokens/new/", "/tokens/requests/", "/commands/", "/programs/connect/",
    "/webhooks/", "/webhooks/new/", "/notifications/", "/notifications/chat/",
    "/tokens/requests/?tool=none", "/audit/", "/audit/?since=never",
    "/audit/?event=undone", "/account/", "/account/password/set/", "/account/password/reset/",
    "/account/second-factor/",
    "/numbers/", "/numbers/?days=90",
    "/account/factors/totp/activate/", "/account/factors/webauthn/add/", "/agent/", "/api/v1/docs",
    "/nowhere/", "/broken/400/", "/broken/403/", "/broken/500/",
]  # fmt: skip


def furnish(
    api: Api,
    alice: User,
    bob: User,
    charlie: User,
    script: Script,
    server: MemoryServer,
    settings: Any,
) -> list[View]:
    settings.ROOT_URLCONF = __name__
    settings.MAILHUB_UNDO_SECONDS = 600
    mailbox = Mailbox.objects.get()
    vera = User.objects.create_user("vera@lovelace.example")
    Membership.objects.create(mailbox=mailbox, user=vera, role=Role.VIEWER)
    seen = _actions(api, alice, bob, script, server, settings)
    for status in ("needs_reauth", "error", "disconnected"):
        other = make_mailbox(f"{status}@lovelace.example", server, alice)
        Mailbox.objects.filter(pk=other.pk).update(
            status=status, checked_at=timezone.now(), name="A name"
        )
    for purpose in ReviewText.Purpose:
        ReviewText.objects.create(
            mailbox=mailbox, purpose=purpose, title="Shorter", text="Please use fewer words."
        )
    _discuss(seen["plain"], alice, vera, bob)
    api.tool("create_draft", to=["mira@northwind.example"], subject="A draft", body="Begun")
    Membership.objects.filter(user=vera).update(ends_at=timezone.now() + timedelta(days=9))
    its = f"/mailboxes/{mailbox.pk}/"
    invitation = members.invite(
        mailbox=mailbox, person=alice, email="new@northwind.example", role=Role.APPROVER
    )
    known = members.invite(mailbox=mailbox, person=alice, email=charlie.email, role=Role.APPROVER)
    link = SignInLink.issue(user=alice, lifetime=timedelta(hours=1))
    programs = connect_programs(alice, mailbox)
    return [
        *(View(who="alice", address=f"/?{query}") for query in QUEUE),
        *(View(who="alice", address=address, name=name) for name, address in seen.items()),
        *(
            View(who="alice", address=address)
            for address in (
                *AROUND,
                its,
                f"{its}rules/",
                f"{its}texts/",
                f"{its}chat/",
                f"{its}disconnect/",
            )
        ),
        View(who="alice", address="/tokens/new/", then=make_token, name="a new token"),
        *(View(who="alice", address=address, name=name) for name, address in programs.items()),
        View(who="charlie", address=programs["an app"], name="a program without a mailbox"),
        *(
            View(who="alice", address="/oauth/device", then=device(answer), name=f"{name} device")
            for name, answer in {"a": "", "a connected": "allow", "a refused": "refuse"}.items()
        ),
        View(who="alice", address=_webhook(alice), name="what a webhook was told"),
        View(who="alice", address="/webhooks/new/", then=add_webhook, name="a new webhook"),
        View(who="alice", address="/compose/", then=refused_mail, name="a mail that is refused"),
        View(
            who="alice",
            address="/audit/",
            then=lambda page: pressed(page, "verify"),
            name="a verified audit",
        ),
        View(who="alice", address=its, then=invite, name="an invitation to send on"),
        View(
            who="alice",
            address=its,
            then=lambda page: page.evaluate(UNSEALED),
            name="a form without its token",
        ),
        View(
            who="alice",
            address=f"{its}rules/",
            then=wrong_rules,
            name="rules that nobody can keep",
        ),
        View(
            who="alice",
            address=f"{seen['plain']}edit/",
            then=wrong_edit,
            name="an edit that is refused",
        ),
        View(
            who="alice",
            address=seen["plain"],
            then=lambda page: stale(page, bob),
            name="a form that is too old",
        ),
        View(who="alice", address="/?q=alike", then=several, name="several at once"),
        View(who="alice", address="/?q=different", then=several_approved, name="several approved"),
        View(
            who="alice",
            address="about:blank",
            then=lambda page: framed(page, seen["html"]),
            name="frame",
        ),
        *(View(who="vera", address=address) for address in ("/", seen["plain"], its)),
        *(
            View(who="charlie", address=each)
            for each in (
                "/",
                "/compose/",
                "/drafts/",
                "/numbers/",
                "/mailboxes/",
                "/tokens/",
                "/webhooks/",
            )
        ),
        View(who="charlie", address="/audit/"),
        View(who="charlie", address=f"/invitations/{invitation}/", name="an invitation"),
        View(who="charlie", address="/invitations/none/"),
        View(
            who="nobody",
            address=f"/invitations/{known}/",
            name="an invitation of a person who is known",
        ),
        *(
            View(who="nobody", address=address)
            for address in ("/sign-in/", "/sign-in/none/", "/offline/")
        ),
        View(
            who="alice",
            address="/notifications/chat/",
            then=wrong_chat,
            name="a chat address that is refused",
        ),
        View(who="nobody", address=f"/sign-in/{link}/", name="a link to sign in"),
        View(who="alice, long ago", address="/sign-in/again/"),
    ]


def _discuss(address: str, alice: User, vera: User, bob: User) -> None:
    action = PendingAction.objects.get(pk=address.split("/")[2])
    for person, text in ((alice, "Is the date right, @vera?"), (bob, "word " * 300)):
        discussion.add_comment(action=action, person=person, text=text)
    discussion.assign(action=action, person=alice, to=bob)


def _actions(
    api: Api, alice: User, bob: User, script: Script, server: MemoryServer, settings: Any
) -> dict[str, str]:
    """Create actions in every state, and return the addresses of their pages, by content."""
    changed: dict[str, dict[str, Any]] = {
        "plain": {"bcc": ["hidden@archive.example"]},
        "html": {"body": "<h1>Hello</h1><p>there</p>", "body_type": "html"},
        "hidden": {
            "body": "<p>Hello</p><p hidden>there</p>" + "<!-- a long note -->" * 30,
            "body_type": "html",
        },
        "many": {
            "subject": "😀" * 255,
            "to": [f"guest{n}@domain{n % 40}.example" for n in range(500)],
        },
        "long": {"subject": "<script>alert(1)</script>", "body": "<b>word</b> עברית " * 5000},
        "risky": {
            "cc": ["mira@northvvind.example"],
            "body": "My card is 4111 1111 1111 1111, see the attachment.",
        },
        "alike 1": {},
        "alike 2": {},
        "different 1": {},
        "different 2": {},
        "different 3": {},
        "edited": {},
        "asked back": {},
        "leaving": {},
        "unknown": {},
        "sent": {},
        "failed": {},
        "returned": {"follow_up": {"after_days": 3, "note": "Call her"}},
        "rejected": {},
        "withdrawn": {},
        "expired": {},
        "later": {"send_at": (timezone.now() + timedelta(days=2)).isoformat()},
    }
    ids = {
        name: api.propose(**{"subject": f"{name} mail", **changes})
        for name, changes in changed.items()
    }
    action = {name: PendingAction.objects.get(pk=key) for name, key in ids.items()}
    edited, asked = action["edited"], action["asked back"]
    words = {"subject": "Edited twice", "body": "Other words"}
    revise.edit(action_id=edited.pk, person=bob, digest=edited.digest, revision=1, changes=words)
    revise.ask_back(
        action_id=asked.pk, person=bob, digest=asked.digest, revision=1, note="Shorter, please"
    )
    decide.reject(action_id=action["rejected"].pk, person=alice, note="Not like this")
    decide.reject(action_id=action["withdrawn"].pk, person=bob)
    PendingAction.objects.filter(pk=action["expired"].pk).update(
        status="expired", finished_at=timezone.now()
    )
    approve(ids["leaving"], bob)
    sent = {"unknown": handed_over, "sent": None, "failed": _refused, "returned": None}
    for name, instead in sent.items():
        approve(ids[name], alice)
        PendingAction.objects.filter(pk=ids[name]).update(not_before=Now(), undo_until=None)
        script.instead = instead
        execute(action[name].pk, worker="test")
    _return(action["returned"])
    more = {
        "mail.reply": "tools.sending.kinds.ReplyMail",
        "mail.forward": "tools.sending.kinds.ForwardMail",
        "draft.change": "tools.sending.held_drafts.ChangeDraft",
    }
    settings.MAILHUB_KINDS = {**settings.MAILHUB_KINDS, **more}
    get_kind.cache_clear()
    server.deliver(alice.email, letter(to=alice.email).as_bytes())
    newest = api.tool("list_emails", max_results=1).json()["emails"][0]["id"]
    answer = api.tool("reply_email", message_id=newest, comment="Thursday it is.", confirm=True)
    assert answer.status_code == 202, answer.content
    ids["reply"] = answer.json()["action"]["id"]
    ids["two texts"] = _forward_of_two_texts(api, alice, server)
    ids["draft change"] = _change_of_a_draft(api, alice, server)
    found = {name: f"/actions/{key}/" for name, key in ids.items()}
    return {
        **{
            name: address
            for name, address in found.items()
            if not name.startswith(("alike", "different"))
        },
        **{
            f"{view} of {name}": f"{found[name]}?view={view}"
            for name, view in (
                ("long", "source"),
                ("html", "text"),
                ("edited", "changes"),
                ("edited", "history"),
                ("unknown", "history"),
            )
        },
        "story": f"{found['returned']}story/",
        "edit": f"{found['html']}edit/",
        "one by one": f"/line/{ids['risky']}/",
        "one by one, decided": f"/line/{ids['sent']}/",
        "the end of the line": f"/line/?after={ids['draft change']}",
        "conversation": f"{found['reply']}conversation/",
    }


def _return(action: PendingAction) -> None:
    """Let two recipients not get it, and a program answer for one of them."""
    now = timezone.now()
    action.refresh_from_db()
    watches.begin(action, None)
    failures = tuple(
        Failure(address=address, status="5.1.1", reason="no such mailbox " * 20)
        for address in ("mira@northwind.example", f"{'long-' * 12}name@northwind.example")
    )
    ira = "ira@atelier.example"
    for response in (
        Response(sort="returned", names=(), by=ira, at=now, failures=failures),
        Response(sort="automatic", names=(), by=ira, at=now),
    ):
        watches.record(action.pk, response, now=now)


def _forward_of_two_texts(api: Api, alice: User, server: MemoryServer) -> str:
    original = letter(to=alice.email, text="Account 4711\n")
    original.add_alternative("<p>Account 1234</p>", subtype="html")
    server.deliver(alice.email, original.as_bytes())
    newest = api.tool("list_emails", max_results=1).json()["emails"][0]["id"]
    answer = api.tool(
        "forward_email", message_id=newest, to=["mira@northwind.example"], confirm=True
    )
    return str(answer.json()["action"]["id"])


def _change_of_a_draft(api: Api, alice: User, server: MemoryServer) -> str:
    """Propose to replace a draft that a person wrote, and return the action's id."""
    server.deliver(alice.email, letter(to="mira@northwind.example").as_bytes(), folder="drafts")
    draft = api.tool("list_drafts").json()["drafts"][0]["id"]
    body = {"body": "<p>Hello</p><p hidden>there</p>", "body_type": "html"}
    answer = api.tool(
        "update_draft", draft_id=draft, to=["mira@northwind.example"], subject="Changed", **body
    )
    return str(answer.json()["action"]["id"])


def _webhook(alice: User) -> str:
    """Create a webhook that subscribes to all events, with every kind of delivery result."""
    where = {
        "url": "https://hooks.northwind.example/mailhub/actions?team=accounts",
        "events": list(EVENTS),
    }
    webhook = Webhook.objects.create(
        token=ApiToken.objects.filter(user=alice)[0], secret="none", **where
    )
    went: tuple[dict[str, Any], ...] = (
        {"delivered_at": timezone.now(), "answer": "200", "tries": 1},
        {"next_at": timezone.now() + timedelta(minutes=4), "answer": "503", "tries": 2},
        {"answer": "no_answer", "tries": 10},
    )
    actions = PendingAction.objects.order_by("created_at")
    for number, action in enumerate(actions):
        event = list(EVENTS)[number % len(EVENTS)]
        WebhookDelivery.objects.create(
            webhook=webhook,
            event=event,
            action=action,
            at=action.created_at,
            **went[number % len(went)],
        )
    return f"/webhooks/{webhook.pk}/"


def _refused(approved: ApprovedAction) -> Outcome:
    return Outcome(
        verdict="refused",
        proof=BEFORE_WIRE,
        code="invalid_recipient",
        detail="There is no such mailbox.",
    )
