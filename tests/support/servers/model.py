"""A server that speaks OpenAI's chat protocol: scripted answers, calls of tools, slow and broken
streams.

It keeps its requests, so that a test sees the model's input.
"""

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PATIENCE = 20.0
# The window of a small current model; more is an error, as with the real ones.
CONTEXT_CHARS = 100_000


@dataclass(frozen=True, kw_only=True)
class Says:
    """One answer: text in pieces, calls of tools, or a failure.

    `hold` waits in mid-stream, `breaks` cuts it there.
    """

    text: str = ""
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()
    status: int = 200
    hold: bool = False
    breaks: bool = False


Script = Callable[[dict[str, Any]], Says]


@dataclass
class ModelServer:
    script: list[Says | Script] = field(default_factory=list)
    otherwise: Says | Script = field(default_factory=lambda: Says(text="I have nothing to add."))
    requests: list[dict[str, Any]] = field(default_factory=list)
    holding: threading.Event = field(default_factory=threading.Event)
    go_on: threading.Event = field(default_factory=threading.Event)
    left: threading.Event = field(default_factory=threading.Event)

    def says(self, *answers: Says | Script) -> None:
        self.script.extend(answers)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def shown(self, index: int = -1) -> list[dict[str, Any]]:
        """Return the messages of a request."""
        messages: list[dict[str, Any]] = self.requests[index]["messages"]
        return messages

    def tool_results(self, index: int = -1) -> list[str]:
        return [
            str(message["content"]) for message in self.shown(index) if message["role"] == "tool"
        ]

    def tools(self, index: int = -1) -> list[str]:
        return [tool["function"]["name"] for tool in self.requests[index].get("tools", [])]

    def __enter__(self) -> "ModelServer":
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler_of(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=lambda: self._server.serve_forever(poll_interval=0.02), daemon=True
        )
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.go_on.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(PATIENCE)


def _handler_of(server: ModelServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            request = json.loads(body)
            server.requests.append(request)
            if len(body) > CONTEXT_CHARS:
                self._refuse(400, "context_length_exceeded")
                return
            answer = server.script.pop(0) if server.script else server.otherwise
            says = answer if isinstance(answer, Says) else answer(request)
            if says.status != 200:
                self._refuse(says.status, "scripted")
                return
            try:
                self._stream(says, number=len(server.requests))
            except (BrokenPipeError, ConnectionResetError):
                server.left.set()

        def _stream(self, says: Says, number: int) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Connection", "close")
            self.end_headers()
            self._delta(number, {"role": "assistant", "content": ""})
            pieces = [says.text[at : at + 20] for at in range(0, len(says.text), 20)]
            for place, piece in enumerate(pieces):
                self._delta(number, {"content": piece})
                if place == 0 and says.hold:
                    server.holding.set()
                    while not server.go_on.wait(0.02):
                        self.wfile.write(b": still here\n\n")
                        self.wfile.flush()
            if says.breaks:
                self.connection.close()
                return
            for place, (name, arguments) in enumerate(says.calls):
                function = {"name": name, "arguments": json.dumps(arguments)}
                call = {
                    "index": place,
                    "id": f"call_{number}_{place}",
                    "type": "function",
                    "function": function,
                }
                self._delta(number, {"tool_calls": [call]})
            self._delta(number, {}, finish="tool_calls" if says.calls else "stop")
            self.wfile.write(b"data: [DONE]\n\n")

        def _delta(self, number: int, delta: dict[str, Any], finish: str | None = None) -> None:
            choice = {"index": 0, "delta": delta, "finish_reason": finish}
            chunk = {
                "id": f"c{number}",
                "object": "chat.completion.chunk",
                "created": 1,
                "model": "m",
                "choices": [choice],
            }
            self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
            self.wfile.flush()

        def _refuse(self, status: int, code: str) -> None:
            body = json.dumps(
                {"error": {"message": code, "code": code, "type": "invalid_request_error"}}
            ).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Write nothing to standard error."""

    return Handler
