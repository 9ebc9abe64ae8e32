"""`mailhub-client`, from its wheel, against the served application."""

import asyncio
import hmac
import json
import sys
from base64 import b64encode
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from traceback import format_exception
from typing import Any

import anyio
import httpx
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from standardwebhooks import Webhook

from accounts.models import Mailbox
from approvals.models import PendingAction
from tests.conformance.served import ERAS
from tests.conftest import HELLO, Api, Reviewer
from tests.support.processes.programs import until
from tests.support.servers.memory import MemoryServer
from tests.support.work import work

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.process]
SECONDS = 60.0
Ask = Callable[..., Any]


@pytest.fixture(autouse=True)
def client(installed: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(installed))
    import mailhub_client

    assert Path(mailhub_client.__file__).is_relative_to(installed)
    yield mailhub_client
    for name in [name for name in sys.modules if name.startswith("mailhub_client")]:
        del sys.modules[name]


def ask_plainly(client: Any, door: str, secret: str, **given: Any) -> Any:
    with client.Mailhub(door, token=secret) as hub:
        return hub.propose_and_wait("send_email", timeout=SECONDS, **given)


def ask_with_async(client: Any, door: str, secret: str, **given: Any) -> Any:
    async def ask() -> Any:
        async with client.AsyncMailhub(door, token=secret) as hub:
            return await hub.propose_and_wait("send_email", timeout=SECONDS, **given)

    return asyncio.run(ask())


@pytest.mark.parametrize(
    ("ask", "verdict"),
    [
        (ask_plainly, "approve"),
        (ask_with_async, "reject"),
        (ask_plainly, "ask_back"),
        (ask_with_async, "ask_back"),
    ],
)
def test_program_waits_for_the_decision(
    client: Any,
    door: str,
    api: Api,
    reviewer: Reviewer,
    server: MemoryServer,
    ask: Ask,
    verdict: str,
) -> None:
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(ask, client, door, api.secret, **HELLO, reason="She asked.")
        until(lambda: PendingAction.objects.exists() or waiting.done())
        action_id = str(PendingAction.objects.get().pk)
        reviewer.decide(action_id, verdict, note="Not today.")
        work()
        action = waiting.result(SECONDS)
    assert action.id == action_id
    assert (action.is_final, action.asks_for_changes) == (
        verdict != "ask_back",
        verdict == "ask_back",
    )
    if verdict == "ask_back":
        assert action.review["note"] == "Not today."
    elif verdict == "approve":
        assert (action.state, action.receipt["recipient_count"]) == ("succeeded", 1)
        assert len(server.ledger) == 1
    else:
        assert (action.state, action.review["note"]) == ("rejected", "Not today.")


@pytest.mark.parametrize("name", ["Mailhub", "AsyncMailhub"])
def test_lost_answer_makes_one_action(client: Any, door: str, api: Api, name: str) -> None:
    class Lossy(httpx.HTTPTransport):
        lost = False

        def handle_request(self, request: httpx.Request) -> httpx.Response:
            answer = super().handle_request(request)
            if not Lossy.lost:
                Lossy.lost = True
                answer.read()
                raise httpx.ReadError("lost")
            return answer

    class AsyncLossy(httpx.AsyncHTTPTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            answer = await super().handle_async_request(request)
            if not Lossy.lost:
                Lossy.lost = True
                await answer.aread()
                raise httpx.ReadError("lost")
            return answer

    async def ask() -> Any:
        async with client.AsyncMailhub(door, token=api.secret, transport=AsyncLossy()) as hub:
            return await hub.propose("send_email", **HELLO)

    if name == "Mailhub":
        with client.Mailhub(door, token=api.secret, transport=Lossy()) as hub:
            action = hub.propose("send_email", **HELLO)
    else:
        action = asyncio.run(ask())
    assert Lossy.lost
    assert action.id == str(PendingAction.objects.get().pk)


def test_every_method_gets_what_the_server_says(
    client: Any, door: str, api: Api, mailbox: Mailbox
) -> None:
    with client.Mailhub(door, token=api.secret) as hub:
        assert hub.call("list_mailboxes")["mailboxes"][0]["address"] == mailbox.address
        (sending,) = (each for each in hub.tools() if each["name"] == "send_email")
        assert "subject" in sending["parameters"]["properties"]
        drafts = [hub.call("create_draft", key="d-1", **HELLO) for _ in range(2)]
        assert drafts[0]["id"] == drafts[1]["id"]
        preview = hub.preview("send_email", **HELLO)
        assert (len(preview.digest), preview.text.endswith("Nothing has been sent.")) == (64, True)
        upload = hub.upload("a.txt", b"hello", "text/plain")
        given = {**HELLO, "attachments": [{"handle": upload.handle}]}
        action = hub.propose("send_email", **given, metadata={"ticket": "7"})
        other = hub.propose("send_email", **{**HELLO, "subject": "Another"})
        assert [each.id for each in hub.actions()] == [other.id, action.id]
        assert [each.id for each in hub.actions(metadata={"ticket": "7"})] == [action.id]
        assert hub.wait(action.id, timeout=0).state == "pending"
        assert hub.cancel(action.id).state == "cancelled"
        assert hub.action(action.id).is_final
        with pytest.raises(client.MailhubError) as refused:
            hub.call("read_email", message_id="nonsense")
        assert (refused.value.code, refused.value.status) == ("not_found", 404)
        with pytest.raises(
            client.MailhubError, match=r"to\.0: is not a plain e-mail address"
        ) as wrong:
            hub.preview("send_email", **{**HELLO, "to": ["Mira"]})
        assert wrong.value.errors[0]["field"] == "to.0"
        with pytest.raises(client.MailhubError, match=r"valid\. unless_answered needs send_at\.$"):
            hub.preview("send_draft", draft_id="x", unless_answered=True)
        with pytest.raises(ValueError, match="proposes nothing"):
            hub.propose("list_emails")
        for key in ("order\n7", "Auftrag-ü"):
            with pytest.raises(ValueError, match="printable ASCII"):
                hub.propose("send_email", **HELLO, key=key)
    with (
        client.Mailhub("http://127.0.0.1:1", token="mh_x") as hub,
        pytest.raises(client.MailhubError, match="no answer"),
    ):
        hub.call("list_mailboxes")


@pytest.mark.parametrize("broken", ["", "body", "id", "age", "secret", "unsigned", "number"])
def test_message_of_a_webhook_is_verified(client: Any, broken: str) -> None:
    secret, body = f"whsec_{b64encode(b'k' * 24).decode()}", b'{"type":"action.succeeded"}'
    at = datetime.now(UTC) - timedelta(minutes=6 if broken == "age" else 0)
    headers = {
        "Webhook-Id": "msg_2" if broken == "id" else "msg_1",
        "Webhook-Timestamp": str(int(at.timestamp())),
        "Webhook-Signature": "v1,AAAA " + Webhook(secret).sign("msg_1", at, body.decode()),
    }
    if broken == "number":
        mac = hmac.digest(b"k" * 24, f"msg_1.{'9' * 5000}.".encode() + body, "sha256")
        headers["Webhook-Timestamp"] = "9" * 5000
        headers["Webhook-Signature"] = f"v1,{b64encode(mac).decode()}"
    if broken == "unsigned":
        headers = {}
    if broken == "secret":
        secret = f"whsec_{b64encode(b'x' * 24).decode()}"
    given = body + b" " if broken == "body" else body
    if broken:
        with pytest.raises(client.MailhubError):
            client.verify(secret, headers, given)
    else:
        assert client.verify(secret, headers, given) == {"type": "action.succeeded"}


@pytest.mark.parametrize("era", ERAS)
def test_bridge_carries_the_protocol_of_a_desktop_client(
    installed: Path, door: str, api: Api, era: str
) -> None:
    bridge = StdioServerParameters(
        command=str(installed / "bin/mailhub-mcp"),
        env={"PYTHONPATH": str(installed), "MAILHUB_URL": door, "MAILHUB_TOKEN": api.secret},
    )

    async def session() -> tuple[Any, Any]:
        with anyio.fail_after(SECONDS):
            async with Client(bridge, mode=era) as desktop:
                called = await desktop.call_tool("send_email", {**HELLO, "confirm": True})
                return await desktop.list_tools(), called

    listed, called = anyio.run(session)
    assert "send_email" in {tool.name for tool in listed.tools}
    assert json.loads(called.content[0].text)["status"] == "pending"


def test_bridge_says_why_mailhub_refuses(installed: Path, door: str) -> None:
    bridge = StdioServerParameters(
        command=str(installed / "bin/mailhub-mcp"),
        env={"PYTHONPATH": str(installed), "MAILHUB_URL": door, "MAILHUB_TOKEN": "mh_wrong"},
    )

    async def session() -> None:
        with anyio.fail_after(SECONDS):
            async with Client(bridge, mode=ERAS[1]) as desktop:
                await desktop.list_tools()

    with pytest.raises(ExceptionGroup) as refused:
        anyio.run(session)
    assert "The token" in "".join(format_exception(refused.value))
