"""A program that loses its rights while it sends a body gets nothing for the rest of the body."""

import json
import re
import socket
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.utils import timezone

from accounts.access.auth import find_again
from accounts.access.caller import Caller
from accounts.infra.problems import Problem
from accounts.models import ApiToken, Mailbox, User
from accounts.people.recovery import recover
from tests.conformance.served import SECONDS
from tests.conftest import make_api
from tests.support.processes.programs import until

pytestmark = pytest.mark.django_db(transaction=True)
CALL = {"name": "list_emails", "arguments": {}}
FORM = (
    b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\nText\r\n--b--\r\n'
)
BODIES = {
    "/mcp": json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": CALL}).encode(),
    "/api/v1/tools/list_emails": b'{ }',
    "/api/v1/webhooks": b'{"callbacks": true}',
    "/api/v1/attachments": FORM,
    "/ai/agent/stream": b'{"prompt": " "}',
}  # fmt: skip
HEAD = """\
POST {path} HTTP/1.1
Host: localhost
Authorization: Bearer {secret}
Accept: application/json, text/event-stream
MCP-Protocol-Version: 2025-11-25
Content-Type: {kind}
Content-Length: {length}
Connection: close

"""


def begin(url: str, path: str, secret: str) -> socket.socket:
    """Send the head of a request and the first byte of its body."""
    kind = "multipart/form-data; boundary=b" if path.endswith("attachments") else "application/json"
    body = BODIES[path]
    address = urlsplit(url)
    client = socket.create_connection((address.hostname, address.port), SECONDS)
    head = HEAD.format(path=path, secret=secret, kind=kind, length=len(body))
    client.sendall(head.replace("\n", "\r\n").encode() + body[:1])
    return client


def code_of_rest(client: socket.socket, path: str) -> str:
    """Send the rest of the body; return the code of the problem that answers it, or nothing."""
    with client, client.makefile("rb") as answer:
        client.sendall(BODIES[path][1:])
        text = answer.read().decode().replace("\\", "")
    found = re.search(r'"code": ?"(\w+)"', text)
    assert found or text.split()[1] in ("200", "201"), text
    return found[1] if found else ""


TAKERS: dict[str, tuple[Callable[[], Any], str]] = {
    "nothing": (lambda: None, ""),
    "revoked": (lambda: ApiToken.objects.update(revoked_at=timezone.now()), "unauthenticated"),
    "expired": (lambda: ApiToken.objects.update(expires_at=timezone.now()), "unauthenticated"),
    "closed": (lambda: User.objects.update(is_active=False), "unauthenticated"),
    "narrowed": (lambda: ApiToken.objects.update(scopes=[]), "forbidden"),
}


@pytest.mark.parametrize("how", TAKERS)
def test_right_that_ends_during_the_body_is_gone(
    url: str, alice: User, mailbox: Mailbox, monkeypatch: Any, how: str
) -> None:
    take, expected = TAKERS[how]
    begun = {path: begin(url, path, make_api(alice, mailbox, name=path).secret) for path in BODIES}
    until(lambda: not ApiToken.objects.filter(last_used_at=None).exists())  # all are admitted
    take()
    clock = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: clock() + 2)
    found = {path: code_of_rest(client, path) for path, client in begun.items()}
    assert found == dict.fromkeys(BODIES, expected)


def test_answer_of_the_chat_ends_with_a_recovery(alice: User) -> None:
    """A thief may have asked for it, and it lasts minutes. Before each call its caller is looked up."""
    asked = Caller.chat_of(alice)
    assert find_again(asked, seconds=0)
    recover(User.objects.get(pk=alice.pk))
    with pytest.raises(Problem, match="unauthenticated"):
        find_again(asked, seconds=0)
