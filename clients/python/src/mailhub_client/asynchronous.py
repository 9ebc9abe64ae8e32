"""The client with `async`; its methods are those of `Mailhub`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx

from mailhub_client import calls
from mailhub_client.types import Action, Preview, Upload


class AsyncMailhub:
    """A connection to one mailhub with one token.

    Every method raises MailhubError. `transport` is for tests.
    """

    def __init__(
        self, base_url: str, *, token: str, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self._http = httpx.AsyncClient(**calls.settings_of(base_url, token), transport=transport)

    async def call(
        self, tool: str, /, *, key: str | None = None, **arguments: Any
    ) -> dict[str, Any]:
        """Call any tool, and return its result as mailhub documents it. `key` is an idempotency key."""
        found: dict[str, Any] = await self._send(calls.tool(tool, arguments, key=key))
        return found

    async def tools(self) -> list[dict[str, Any]]:
        """Return the tools that the token may call, each with the JSON Schema of its parameters."""
        found: list[dict[str, Any]] = (await self._send(calls.TOOLS))["tools"]
        return found

    async def preview(self, tool: str, /, **arguments: Any) -> Preview:
        """Return what a person would see. Nothing is stored."""
        return Preview.read(await self._send(calls.tool(tool, {**arguments, "confirm": False})))

    async def propose(self, tool: str, /, *, key: str | None = None, **arguments: Any) -> Action:
        """Propose a mail to a person. `key` is the idempotency key; without one it is random.

        A request whose answer was lost is repeated once. It has the same key, so mailhub returns
        the same action.
        """
        asked = calls.proposal(tool, arguments, key)
        try:
            answer = await self._http.request(asked.method, asked.path, **asked.options())
        except httpx.HTTPError:
            return Action.read((await self._send(asked))["action"])
        return Action.read(calls.read(answer)["action"])

    async def propose_and_wait(
        self, tool: str, /, *, timeout: float = 3600.0, key: str | None = None, **arguments: Any
    ) -> Action:
        """Propose, and return what `wait` returns."""
        return await self.wait((await self.propose(tool, key=key, **arguments)).id, timeout=timeout)

    async def wait(self, action_id: str, *, timeout: float = 3600.0) -> Action:
        """Return the action when it has ended, when a person asks for changes, or after `timeout`
        seconds as it is.
        """
        waiting = calls.Waiting(timeout)
        while True:
            found = Action.read(await self._send(waiting.next(action_id)))
            if waiting.is_over(found):
                return found
            await asyncio.sleep(waiting.pause())

    async def action(self, action_id: str, *, wait: float = 0.0) -> Action:
        """Return an action; with `wait`, mailhub answers when it changes, within 60 seconds."""
        return Action.read(await self._send(calls.action(action_id, wait)))

    async def actions(
        self, *, state: str | None = None, metadata: Mapping[str, str] | None = None
    ) -> AsyncIterator[Action]:
        """Yield the actions that this token has proposed, the newest first."""
        params: dict[str, Any] = {"limit": 100, **calls.metadata_params(metadata or {})}
        params |= {"state": state} if state else {}
        while True:
            page = await self._send(calls.Call(method="GET", path="actions", params=params))
            for each in page["items"]:
                yield Action.read(each)
            if "next_cursor" not in page:
                return
            params["cursor"] = page["next_cursor"]

    async def cancel(self, action_id: str) -> Action:
        """Withdraw an action that has not left."""
        return Action.read(await self._send(calls.tool("cancel_action", {"action_id": action_id})))

    async def upload(self, name: str, content: bytes, media_type: str) -> Upload:
        """Upload a file to attach."""
        files = calls.file_named(name, content, media_type)
        asked = calls.Call(method="POST", path="attachments", files=files)
        return Upload.read(await self._send(asked))

    async def _send(self, asked: calls.Call) -> Any:
        try:
            answer = await self._http.request(asked.method, asked.path, **asked.options())
        except httpx.HTTPError as error:
            raise calls.lost(error) from None
        return calls.read(answer)

    async def close(self) -> None:
        await self._http.aclose()

    async def __aenter__(self) -> AsyncMailhub:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
