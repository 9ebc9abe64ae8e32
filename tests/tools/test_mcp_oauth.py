"""The OAuth client of the official Python SDK connects over the wire, without a token in advance."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit

import anyio
import httpx2
import pytest
from asgiref.sync import sync_to_async
from django.utils import timezone
from mcp.client import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
)
from pydantic import AnyUrl

from accounts.models import ApiToken, Mailbox, RequestRecord, User
from approvals.models import PendingAction
from tests.accounts.scripted_servers import trusted
from tests.conformance.served import ERAS, SECONDS
from tests.conftest import HELLO, Reviewer
from tests.support.loopback import on_ports
from tests.support.people.browser import browser
from tests.support.people.programs import BACK, allow
from tests.support.servers.certificates import Authority, authority
from tests.support.servers.http import QuickServer

pytestmark = [pytest.mark.process, pytest.mark.django_db(transaction=True)]
__all__ = ["authority", "trusted"]
T = TypeVar("T")


@dataclass
class Kept:
    """The memory of a client between its starts."""

    tokens: OAuthToken | None = None
    client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


@dataclass
class Desk:
    """A client and the person in front of it, who ticks `scopes` on the consent page."""

    url: str
    person: User
    mailbox: Mailbox
    scopes: str
    era: str = "2026-07-28"
    document: str | None = None
    kept: Kept = field(default_factory=Kept)
    asked: list[str] = field(default_factory=list)
    answer: dict[str, list[str]] = field(default_factory=dict)
    signs_in: OAuthClientProvider | None = None

    async def open_browser(self, address: str) -> None:
        parts = urlsplit(address)
        self.asked.append(parse_qs(parts.query)["scope"][0])
        page = f"{parts.path}?{parts.query}"
        leads = await sync_to_async(allow)(self.person, page, self.mailbox, scopes=self.scopes)
        assert leads.status_code == 302, leads.content
        self.answer = parse_qs(urlsplit(leads["Location"]).query)

    async def wait_for_answer(self) -> AuthorizationCodeResult:
        return AuthorizationCodeResult(
            **{name: self.answer[name][0] for name in ("code", "state", "iss")}
        )

    def provider(self) -> OAuthClientProvider:
        """Return the SDK's sign-in, as after a start of the client."""
        self.signs_in = OAuthClientProvider(
            f"{self.url}/mcp",
            OAuthClientMetadata(client_name="Desk", redirect_uris=[AnyUrl(BACK)]),
            self.kept,
            redirect_handler=self.open_browser,
            callback_handler=self.wait_for_answer,
            client_metadata_url=self.document,
        )
        return self.signs_in

    def session(self, work: Callable[[Client], Awaitable[T]]) -> T:
        async def run() -> T:
            with anyio.fail_after(SECONDS):
                async with (
                    httpx2.AsyncClient(auth=self.provider(), timeout=SECONDS) as http,
                    Client(
                        streamable_http_client(f"{self.url}/mcp", http_client=http),
                        mode=self.era,
                        cache=None,
                    ) as client,
                ):
                    return await work(client)

        return anyio.run(run)

    def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        async def work(client: Client) -> Any:
            return await client.call_tool(name, arguments)

        (content,) = self.session(work).content
        found: dict[str, Any] = json.loads(content.text)
        return found


@pytest.fixture
def desk(url: str, alice: User, mailbox: Mailbox, settings: Any) -> Desk:
    settings.MAILHUB_PUBLIC_URL = url
    return Desk(url=url, person=alice, mailbox=mailbox, scopes="mail:read mail:propose")


@pytest.mark.parametrize("era", ERAS)
def test_client_connects_proposes_and_reads_the_receipt(desk: Desk, era: str) -> None:
    desk.era = era

    async def names(client: Client) -> set[str]:
        return {tool.name for tool in (await client.list_tools()).tools}

    shown = desk.session(names)
    assert "send_email" in shown
    assert "create_draft" not in shown, "the person did not tick drafts"
    action = desk.call("send_email", **HELLO, confirm=True)["action"]
    assert desk.call("get_action", action_id=action["id"])["state"] == "pending"
    Reviewer.signed_in(desk.person).decide(action["id"], "approve")
    assert desk.call("get_action", action_id=action["id"])["state"] == "approved"

    assert len(desk.asked) == 1, "one consent is enough"
    grant = ApiToken.objects.get()
    assert grant.name == "Desk"
    assert grant.last_used_at is not None
    assert PendingAction.objects.get().proposer_name == "Desk"
    assert RequestRecord.objects.filter(token=grant).count() == 3


def test_client_refreshes_an_expired_token(desk: Desk) -> None:
    used: list[str] = []

    async def work(client: Client) -> None:
        for _ in range(2):
            await client.call_tool("list_mailboxes", {})
            assert desk.kept.tokens
            assert desk.signs_in
            used.append(desk.kept.tokens.access_token)
            desk.signs_in.context.token_expiry_time = 1

    desk.session(work)
    assert len(set(used)) == 2
    assert len(desk.asked) == 1


def test_client_asks_for_the_missing_scope(desk: Desk) -> None:
    desk.scopes = "mail:read"
    assert desk.call("list_mailboxes")["mailboxes"]
    desk.scopes = "mail:read mail:draft"
    draft = desk.call("create_draft", **HELLO)
    assert draft["subject"] == HELLO["subject"]
    assert len(desk.asked) == 2
    assert "mail:draft" in desk.asked[1].split()
    newest = ApiToken.objects.order_by("created_at").last()
    assert newest
    assert newest.scopes == ["mail:draft", "mail:read"]


def test_client_asks_again_after_a_revocation(desk: Desk) -> None:
    assert desk.call("list_mailboxes")["mailboxes"]
    ApiToken.objects.update(revoked_at=timezone.now())
    assert desk.call("list_mailboxes")["mailboxes"]
    assert len(desk.asked) == 2
    assert ApiToken.objects.filter(revoked_at=None).count() == 1


def test_client_is_known_by_its_metadata_document(
    desk: Desk, trusted: Authority, settings: Any
) -> None:
    """No registration: the program's id is the address of a document, which mailhub reads."""
    with QuickServer(ssl_context=trusted.server_context("localhost")) as documents:
        settings.MAILHUB_LOOPBACK_FOR_PEOPLE = on_ports(documents.port)
        desk.document = documents.url_for("/desk.json").replace("127.0.0.1", "localhost")
        document = {"client_id": desk.document, "client_name": "Desk", "redirect_uris": [BACK]}
        documents.expect_request("/desk.json").respond_with_json(document)
        assert desk.call("list_mailboxes")["mailboxes"]
        assert len(documents.log) == 1, "the document is read once an hour"
    grant = ApiToken.objects.get()
    assert grant.client_id == desk.document
    page = browser(desk.person).get("/tokens/").content.decode()
    assert "localhost" in page
    assert "unverified" not in page
