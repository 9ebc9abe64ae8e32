"""A right that is taken away is gone from everything that was handed out before.

One person connects a program, which collects all that a program can hold: tokens, codes, links,
webhooks, callbacks. Then rights are taken away, one or several at random, and everything is tried.
"""

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from email.message import EmailMessage
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.test import Client
from django.utils import timezone
from pytest_httpserver import HTTPServer

from accounts.models import SCOPES, STAFF_SCOPES, ApiToken, Mailbox, Membership, Role, User
from approvals.outbound.webhooks import courier, outbox
from tests.approvals.webhook_listener import httpserver, told
from tests.conftest import Api, Reviewer, make_mailbox
from tests.support.people.browser import browser
from tests.support.people.programs import Program, allow
from tests.support.servers.memory import MemoryServer

__all__ = ["httpserver"]
pytestmark = pytest.mark.django_db(transaction=True)
DEVICE = "urn:ietf:params:oauth:grant-type:device_code"
ALL = " ".join(scope for scope in SCOPES if scope not in STAFF_SCOPES)


@dataclass(kw_only=True)
class Held:
    """All that a program of Alice holds, and the two mailboxes that it may use."""

    alice: User
    mailbox: Mailbox
    second: Mailbox
    program: Program
    tokens: dict[str, Any]
    code: str
    device_code: str
    link: str
    message_id: str
    followed: str  # an action with a callback
    other: str
    choose: random.Random

    @property
    def api(self) -> Api:
        return Api(secret=self.tokens["access_token"])

    @property
    def grant(self) -> ApiToken:
        """Return the sign-in that holds the tokens, the link and the webhooks."""
        return ApiToken.objects.order_by("created_at")[0]


# --- What takes rights away


def revoke(held: Held) -> None:
    browser(held.alice).post(f"/tokens/{held.grant.pk}/revoke/")


def end_by_the_program(held: Held) -> None:
    form = {"client_id": held.program.client_id, "token": held.tokens["refresh_token"]}
    held.program.http.post("/oauth/revoke", form)


def send_a_token_twice(held: Held) -> None:
    held.tokens |= held.program.refresh(held.tokens["refresh_token"]).json()
    held.program.exchange(held.tokens["used_code"])


def let_it_expire(held: Held) -> None:
    ApiToken.objects.update(expires_at=timezone.now())


def take_scopes(held: Held) -> None:
    for grant in ApiToken.objects.filter(revoked_at=None):
        kept = held.choose.sample(grant.scopes, held.choose.randint(1, len(grant.scopes)))
        _narrow(held, grant, kept, list(grant.mailboxes.all()))


def take_the_right_to_read(held: Held) -> None:
    _take_scope(held, "mail:read")


def take_the_right_to_have_webhooks(held: Held) -> None:
    _take_scope(held, "webhooks:manage")


def _take_scope(held: Held, scope: str) -> None:
    for grant in ApiToken.objects.filter(revoked_at=None):
        kept = [each for each in grant.scopes if each != scope]
        _narrow(held, grant, kept, list(grant.mailboxes.all()))


def take_the_mailbox(held: Held) -> None:
    for grant in ApiToken.objects.filter(revoked_at=None):
        _narrow(held, grant, grant.scopes, [held.second])


def _narrow(held: Held, grant: ApiToken, scopes: list[str], mailboxes: list[Mailbox]) -> None:
    form = {"scopes": scopes, "mailboxes": [str(each.pk) for each in mailboxes]}
    browser(held.alice).post(f"/tokens/{grant.pk}/narrow/", form)


def remove_the_member(held: Held) -> None:
    Membership.objects.filter(user=held.alice, mailbox=held.mailbox).delete()


def lower_the_role(held: Held) -> None:
    Membership.objects.filter(user=held.alice, mailbox=held.mailbox).update(role=Role.VIEWER)


def close_the_account(held: Held) -> None:
    User.objects.filter(pk=held.alice.pk).update(is_active=False)


TAKERS = [
    revoke, end_by_the_program, send_a_token_twice, let_it_expire, take_scopes,
    take_the_right_to_read, take_the_right_to_have_webhooks, take_the_mailbox,
    remove_the_member, lower_the_role, close_the_account,
]  # fmt: skip


# --- What may still be done, and what is


def lives(grant: ApiToken) -> bool:
    active = User.objects.get(pk=grant.user_id).is_active
    return grant.revoked_at is None and not grant.is_expired and active


def may(held: Held, grant: ApiToken, scope: str) -> bool:
    """Return True if a read with this scope would answer about the mailbox."""
    member = Membership.objects.filter(user=held.alice, mailbox=held.mailbox).exists()
    bound = grant.mailboxes.filter(pk=held.mailbox.pk).exists()
    return lives(grant) and scope in grant.scopes and member and bound


def check_reads(held: Held) -> None:
    grant = held.grant
    read = held.api.tool("read_email", mailbox=str(held.mailbox.pk), message_id=held.message_id)
    assert (read.status_code == 200) == may(held, grant, "mail:read")
    state = held.api.get(f"/actions/{held.other}")
    assert (state.status_code == 200) == may(held, grant, "mail:propose")
    prompt = json.dumps({"prompt": " "})
    head = {"Authorization": f"Bearer {held.api.secret}"}
    asked = Client(headers=head).post("/ai/agent/stream", prompt, content_type="application/json")
    assert (asked.status_code == 200) == (lives(grant) and "agent:chat" in grant.scopes)


def check_link(held: Held) -> None:
    assert (Client().get(held.link).status_code == 200) == may(held, held.grant, "mail:read")


def check_pushes(held: Held, heard: list[Any], reviewer: Reviewer) -> None:
    heard.clear()
    for action in (held.followed, held.other):
        assert reviewer.decide(action, "reject", note="No").status_code == 302
    told()
    expected = may(held, held.grant, "webhooks:manage")
    assert [path for path, _ in heard].count("/hook") == (4 if expected else 0)
    assert [path for path, _ in heard].count("/callback") == (1 if expected else 0)
    assert not courier.due().exists()


def check_tokens(held: Held) -> None:
    """Exchange what is left for tokens: none of them holds more than its sign-in still has."""
    poll = {"grant_type": DEVICE, "device_code": held.device_code}
    answers = [
        held.program.refresh(held.tokens["refresh_token"]),
        held.program.exchange(held.code),
        held.program.token(**poll),
    ]
    for grant, answer in zip(ApiToken.objects.order_by("created_at"), answers, strict=True):
        assert (answer.status_code == 200) == lives(grant)
        if answer.status_code != 200:
            continue
        assert set(answer.json()["scope"].split()) == set(grant.scopes)
        fresh = Api(secret=answer.json()["access_token"])
        read = fresh.tool("list_emails", mailbox=str(held.mailbox.pk))
        assert (read.status_code == 200) == may(held, grant, "mail:read")


# --- The world


@pytest.fixture
def heard(httpserver: HTTPServer) -> list[Any]:
    found: list[Any] = []

    def take(request: Any) -> Any:
        from werkzeug import Response

        found.append((request.path, request.get_data()))
        return Response(status=200)

    for path in ("/hook", "/callback"):
        httpserver.expect_request(path).respond_with_handler(take)
    return found


@pytest.fixture
def held(
    alice: User, bob: User, mailbox: Mailbox, server: MemoryServer, httpserver: HTTPServer,
    heard: list[Any],
) -> Held:  # fmt: skip
    Membership.objects.filter(user=bob, mailbox=mailbox).update(role=Role.MANAGER)
    second = make_mailbox("second@lovelace.example", server, alice)
    program = Program.registered(grant_types=["authorization_code", "refresh_token", DEVICE])
    both = (mailbox, second)
    used_code = program.take(allow(alice, program.address(scope=ALL), *both, scopes=ALL))
    tokens = program.exchange(used_code).json() | {"used_code": used_code}
    code = program.take(allow(alice, program.address(scope=ALL), *both, scopes=ALL))
    begun = program.http.post(
        "/oauth/device/code", {"client_id": program.client_id, "scope": ALL}
    ).json()
    allow(alice, "/oauth/device", *both, scopes=ALL, code=begun["user_code"])

    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = "m@x.example", mailbox.address, "File"
    message.set_content("See the file.")
    message.add_attachment("secret figure", filename="figure.txt")
    server.deliver(mailbox.address, message.as_bytes())
    api, on = Api(secret=tokens["access_token"]), {"mailbox": str(mailbox.pk)}
    mail = api.tool("list_emails", **on).json()["emails"][0]["id"]
    files = api.tool("list_attachments", message_id=mail, **on).json()["attachments"]
    asked = {"message_id": mail, "attachment_id": files[0]["id"], "as": "link", **on}
    link = urlsplit(api.tool("download_attachment", **asked).json()["url"]).path

    for body in ({"url": httpserver.url_for("/hook")}, {"callbacks": True}):
        assert api.post("/webhooks", body).status_code == 201
    followed = api.propose(callback_url=httpserver.url_for("/callback"), **on)
    other = api.propose(subject="Other", **on)
    outbox.gather()  # two deliveries wait already
    return Held(
        alice=alice,
        mailbox=mailbox,
        second=second,
        program=program,
        tokens=tokens,
        code=code,
        device_code=begun["device_code"],
        link=link,
        message_id=mail,
        followed=followed,
        other=other,
        choose=random.Random(0),
    )


def check_everything(held: Held, heard: list[Any], bob: User) -> None:
    check_reads(held)
    check_link(held)
    check_pushes(held, heard, Reviewer.signed_in(bob))
    check_tokens(held)


@pytest.mark.parametrize("take", [None, *TAKERS])
def test_taken_right_is_gone_from_all_that_was_handed_out(
    held: Held, heard: list[Any], bob: User, take: Callable[[Held], None] | None
) -> None:
    if take is not None:
        take(held)
    check_everything(held, heard, bob)


@pytest.mark.parametrize(
    "seed", [1, 2, *(pytest.param(n, marks=pytest.mark.long) for n in range(3, 40))]
)
def test_rights_taken_at_random_are_gone_from_everything(
    held: Held, heard: list[Any], bob: User, seed: int
) -> None:
    held.choose = random.Random(seed)
    for take in held.choose.sample(TAKERS, held.choose.randint(2, 4)):
        take(held)
    check_everything(held, heard, bob)
