"""Requests to mailhub and the meaning of its answers, without any network.

Both clients, with and without `async`, send these requests.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import httpx

from mailhub_client.types import Action, MailhubError

SECONDS = 30.0  # for an answer, beside the time that a request asks to wait
LONGEST_WAIT = 60  # seconds; mailhub answers at the latest then
PAUSE = 2.0  # seconds between two questions, if mailhub answers without waiting
SENDING = ("send_email", "reply_email", "forward_email", "send_draft", "m365_run_command")


@dataclass(frozen=True)
class Call:
    """One request; `wait` is the time in seconds for which it asks mailhub to wait."""

    method: str
    path: str
    json: Any = None
    params: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    files: Any = None
    wait: float = 0.0

    def options(self) -> dict[str, Any]:
        """Return the arguments for httpx."""
        given = {"params": self.params, "headers": self.headers}
        body = {"files": self.files} if self.files is not None else {"json": self.json}
        return {**given, **(body if self.method == "POST" else {}), "timeout": SECONDS + self.wait}


TOOLS = Call(method="GET", path="tools")


def settings_of(base_url: str, token: str) -> dict[str, Any]:
    """Return the arguments for a client of httpx."""
    return {
        "base_url": f"{base_url.rstrip('/')}/api/v1/",
        "headers": {"Authorization": f"Bearer {token}"},
        "follow_redirects": False,
    }


def tool(name: str, arguments: Mapping[str, Any], *, key: str | None = None) -> Call:
    """Return the call of a tool. `key` is its idempotency key."""
    if key and not (key.isascii() and key.isprintable()):
        raise ValueError("An idempotency key has printable ASCII characters.")
    headers = {"Idempotency-Key": key} if key else {}
    path = f"tools/{quote(name, safe='')}"
    wait = arguments.get("wait") if name == "get_action" else None
    seconds = min(wait, LONGEST_WAIT) if isinstance(wait, int) else 0
    return Call(method="POST", path=path, json=dict(arguments), headers=headers, wait=seconds)


def proposal(name: str, arguments: Mapping[str, Any], key: str | None) -> Call:
    """Return the call that proposes to a person.

    Its key lets it be repeated after a lost answer: mailhub then returns the same action.
    """
    if name not in SENDING:
        raise ValueError(f"{name} proposes nothing; use call()")
    return tool(name, {**arguments, "confirm": True}, key=key or uuid.uuid4().hex)


def action(action_id: str, wait: float) -> Call:
    """Return the question for an action, to be answered after `wait` seconds at the latest."""
    seconds = min(int(wait), LONGEST_WAIT)
    params = {"wait": seconds} if seconds > 0 else {}
    path = f"actions/{quote(action_id, safe='')}"
    return Call(method="GET", path=path, params=params, wait=seconds)


def read(response: httpx.Response) -> Any:
    """Return the JSON of an answer. Raises MailhubError for a problem, or for other content."""
    try:
        body = response.json()
    except ValueError:
        body = None
    if response.is_success and body is not None:
        return body
    said: Mapping[str, Any] = body if isinstance(body, dict) else {}
    after = response.headers.get("Retry-After", "")
    raise MailhubError(
        str(said.get("detail") or f"mailhub answered {response.status_code}."),
        code=str(said.get("code") or ""),
        status=response.status_code,
        errors=tuple(said.get("errors") or ()),
        retry_after=float(after) if after.isdecimal() else None,
    )


def lost(error: httpx.HTTPError) -> MailhubError:
    """Return the error for a request without an answer. It never names the request's content."""
    return MailhubError(f"mailhub gave no answer ({type(error).__name__}).")


def metadata_params(metadata: Mapping[str, str]) -> dict[str, str]:
    return {f"metadata[{name}]": value for name, value in metadata.items()}


def file_named(name: str, content: bytes, media_type: str) -> dict[str, Any]:
    return {"file": (name, content, media_type)}


class Waiting:
    """The rhythm of waiting for a decision until `timeout` seconds have passed."""

    def __init__(self, timeout: float) -> None:
        self._ends = time.monotonic() + timeout
        self._asked = 0.0

    def next(self, action_id: str) -> Call:
        """Return the next question."""
        self._asked = time.monotonic()
        return action(action_id, max(self._ends - self._asked, 0))

    def is_over(self, found: Action) -> bool:
        return found.is_final or found.asks_for_changes or time.monotonic() >= self._ends

    def pause(self) -> float:
        """Return how long to wait before the next question: 0 if mailhub itself has waited."""
        now = time.monotonic()
        return 0.0 if now - self._asked >= PAUSE else max(min(PAUSE, self._ends - now), 0.0)
