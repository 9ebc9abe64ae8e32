"""A server on loopback that speaks Anthropic's Messages API, and answers from a script."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

from anthropic import Anthropic

MAIL = {"to": "mira@northwind.example", "subject": "Thursday", "body": "Does it suit you?"}
PROPOSE = {
    "type": "tool_use",
    "id": "toolu_1",
    "name": "send_email",
    "input": {**MAIL, "confirm": True},
}
REPORT = {"type": "text", "text": "The mail is settled."}


class Answers(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        first = len(asked["messages"]) == 1
        message = {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": asked["model"],
            "content": [PROPOSE if first else REPORT],
            "stop_reason": "tool_use" if first else "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }
        body = json.dumps(message).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Write nothing to standard error."""


@contextmanager
def scripted() -> Iterator[Anthropic]:
    """Yield a client of the scripted server."""
    with HTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield Anthropic(base_url=f"http://127.0.0.1:{server.server_port}", api_key="scripted")
        server.shutdown()
