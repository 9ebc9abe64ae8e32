"""`mailhub-mcp`: MCP over standard input and output, in front of a mailhub somewhere else.

MAILHUB_URL=https://mailhub.example MAILHUB_TOKEN=mh_YOUR_TOKEN mailhub-mcp

Each line of the input is one JSON-RPC message. It is posted to `/mcp` unchanged, and each answer
becomes a line of the output. Several requests may run at once, because one of them may wait for a
person.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, BinaryIO

import httpx

AT_ONCE = 16
SECONDS = 90.0  # a request that waits for a person takes up to 60
VERSION = "io.modelcontextprotocol/protocolVersion"  # in `_meta`, from 2026-07-28 on
# The parameter that the header `Mcp-Name` repeats.
NAMED_BY = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}
UNREACHABLE = -32000  # of JSON-RPC, for an error of a server


class Refused(Exception):
    """A problem document, for example about the token; its text is the detail."""


class Bridge:
    """The connection between the two sides."""

    def __init__(self, url: str, token: str, output: BinaryIO) -> None:
        self._url = f"{url.rstrip('/')}/mcp"
        self._output, self._lock = output, threading.Lock()
        self._negotiated = ""
        self._http = httpx.Client(
            headers={
                "Authorization": f"Bearer {token}",
                "Accept": "application/json, text/event-stream",
                "Content-Type": "application/json",
            },
            timeout=SECONDS,
            follow_redirects=False,
        )

    def run(self, lines: BinaryIO) -> None:
        """Carry every message until the input ends."""
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for line in lines:
                if not line.strip():
                    continue
                message = _message(line)
                # The next message needs the version that this one negotiates.
                if message.get("method") == "initialize":
                    self._carry(line, message)
                else:
                    pool.submit(self._carry, line, message)
        self._http.close()

    def _carry(self, line: bytes, message: Mapping[str, Any]) -> None:
        try:
            with self._http.stream(
                "POST", self._url, content=line.strip(), headers=self._headers(message)
            ) as answer:
                for found in _messages(answer):
                    self._note_version(message, found)
                    self._write(found)
        except Refused as refused:
            self._fail(message, str(refused))
        except (httpx.HTTPError, ValueError) as error:
            self._fail(message, f"mailhub gave no answer ({type(error).__name__}).")

    def _fail(self, message: Mapping[str, Any], detail: str) -> None:
        """Answer with an error; a notification gets no answer."""
        if "id" in message:
            error = {"code": UNREACHABLE, "message": detail}
            self._write({"jsonrpc": "2.0", "id": message["id"], "error": error})

    def _headers(self, message: Mapping[str, Any]) -> dict[str, str]:
        params = message.get("params")
        given = params if isinstance(params, dict) else {}
        meta = given.get("_meta")
        version = (meta.get(VERSION) if isinstance(meta, dict) else "") or self._negotiated
        headers = {"MCP-Protocol-Version": str(version)} if version else {}
        if "method" in message:
            headers["Mcp-Method"] = str(message["method"])
        name = given.get(NAMED_BY.get(str(message.get("method")), ""))
        if isinstance(name, str) and name.isascii() and name.isprintable():
            headers["Mcp-Name"] = name
        return headers

    def _note_version(self, message: Mapping[str, Any], answer: Mapping[str, Any]) -> None:
        result = answer.get("result")
        if message.get("method") == "initialize" and isinstance(result, dict):
            self._negotiated = str(result.get("protocolVersion", ""))

    def _write(self, message: Mapping[str, Any]) -> None:
        line = json.dumps(message, separators=(",", ":")).encode() + b"\n"
        with self._lock:
            self._output.write(line)
            self._output.flush()


def _message(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _messages(answer: httpx.Response) -> Iterator[dict[str, Any]]:
    """Yield the messages of an answer: one as JSON, or several as server-sent events."""
    if answer.headers.get("Content-Type", "").startswith("text/event-stream"):
        data: list[str] = []
        for line in answer.iter_lines():
            if line.startswith("data:"):
                data.append(line[5:].removeprefix(" "))
            elif not line and data:
                yield json.loads("\n".join(data))
                data = []
        return
    content = answer.read()
    if not content:
        return
    found = json.loads(content)
    if "jsonrpc" not in found:
        raise Refused(str(found.get("detail") or f"mailhub answered {answer.status_code}."))
    yield found


def main() -> int:
    """Run the command; return its exit code."""
    url, token = os.environ.get("MAILHUB_URL", ""), os.environ.get("MAILHUB_TOKEN", "")
    if not (url and token):
        print("Set MAILHUB_URL and MAILHUB_TOKEN.", file=sys.stderr)
        return 2
    try:
        Bridge(url, token, sys.stdout.buffer).run(sys.stdin.buffer)
    except KeyboardInterrupt:
        return 130
    return 0
