"""Receivers of chat messages on loopback, as strict as the documentation of each service.

Slack: https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks
Teams: https://learn.microsoft.com/connectors/teams/#microsoft-teams-webhook
ntfy: https://docs.ntfy.sh/publish/#publish-as-json · Gotify: https://gotify.net/docs/pushmsg
Discord: https://discord.com/developers/docs/resources/webhook#execute-webhook
Telegram: https://core.telegram.org/bots/api#sendmessage
Matrix: https://spec.matrix.org/v1.16/client-server-api/
"""

import json
from dataclasses import dataclass, field
from typing import Any

from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

JSON = "application/json"
SLACK = "/services/T0001/B0001/slacksecret"
FLOW = "/workflows/flow1/triggers/manual/paths/invoke"
ROOM = "!room:matrix.example"


def refused(code: int, text: str) -> Response:
    return Response(text, status=code)


@dataclass
class ChatServices:
    """All services on one port; `said` holds the text of each message that one of them took."""

    server: HTTPServer
    said: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    bodies: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        routes = {
            SLACK: self._slack,
            FLOW: self._teams,
            "/": self._ntfy,
            "/message": self._gotify,
            "/discord/123/discordsecret": self._discord,
            "/bot123:telegramsecret/sendMessage": self._telegram,
            "/hook": self._json,
            "/_matrix/client/v3/account/whoami": self._matrix,
            f"/_matrix/client/v3/join/{ROOM}": self._matrix,
        }
        for path, handler in routes.items():
            self.server.expect_request(path).respond_with_handler(self._noted(handler))

    def _noted(self, handler: Any) -> Any:
        def answer(request: Request) -> Response:
            self.asked.append(f"{request.method} {request.path}")
            body: Response = handler(request, _json_of(request))
            return body

        return answer

    def _take(self, text: str, body: Any) -> None:
        self.said.append(text)
        self.bodies.append(body)

    def _slack(self, request: Request, body: Any) -> Response:
        if request.method != "POST" or not isinstance(body, dict):
            return refused(400, "invalid_payload")
        parts = [body.get("text"), *(each.get("text") for each in body.get("attachments", ()))]
        titles = [each.get("title") for each in body.get("attachments", ())]
        text = "\n".join(part for part in [*titles, *parts] if part)
        if not text:
            return refused(400, "no_text")
        self._take(text, body)
        return Response("ok", content_type="text/html")

    def _teams(self, request: Request, body: Any) -> Response:
        wanted = {"api-version": "2016-06-01", "sp": "/triggers/manual/run", "sv": "1.0"}
        if any(request.args.get(name) != value for name, value in wanted.items()):
            return refused(400, '{"error":{"code":"InvalidRequestContent"}}')
        if request.args.get("sig") != "teamssecret":
            return refused(401, '{"error":{"code":"DirectApiAuthorizationRequired"}}')
        if not isinstance(body, dict) or body.get("type") != "message":
            return refused(400, '{"error":{"code":"TriggerInputSchemaMismatch"}}')
        (card,) = body["attachments"]
        assert card["contentType"] == "application/vnd.microsoft.card.adaptive"
        assert card["content"]["type"] == "AdaptiveCard"
        blocks = [block for block in card["content"]["body"] if block["type"] == "TextBlock"]
        self._take("\n".join(block["text"] for block in blocks), body)
        return Response(status=202)

    def _ntfy(self, request: Request, body: Any) -> Response:
        if not isinstance(body, dict) or not body.get("topic"):
            return Response('{"code":40024,"http":400,"error":"invalid request"}', status=400)
        if set(body) & {"actions", "attach", "click", "delay", "email"}:
            return Response('{"code":40300,"http":403,"error":"forbidden"}', status=403)
        self._take(f"{body.get('title', '')}\n{body['message']}", body)
        return Response('{"id":"1","event":"message"}', content_type=JSON)

    def _gotify(self, request: Request, body: Any) -> Response:
        if request.headers.get("X-Gotify-Key") != "gotifysecret":
            return Response('{"error":"Unauthorized","errorCode":401}', status=401)
        self._take(f"{body['title']}\n{body['message']}", body)
        return Response('{"id":1}', content_type=JSON)

    def _discord(self, request: Request, body: Any) -> Response:
        content = body.get("content", "")
        if not 0 < len(content) <= 2000:
            return Response(
                '{"message": "Cannot send an empty message", "code": 50006}', status=400
            )
        self._take(content, body)
        return Response(status=204)

    def _telegram(self, request: Request, body: Any) -> Response:
        if not body.get("chat_id") or not 0 < len(body.get("text", "")) <= 4096:
            return Response('{"ok":false,"error_code":400}', status=400)
        self._take(body["text"], body)
        return Response('{"ok":true,"result":{}}', content_type=JSON)

    def _json(self, request: Request, body: Any) -> Response:
        self._take(f"{body['title']}\n{body['message']}", body)
        return Response("thanks", status=200)

    def _matrix(self, request: Request, body: Any) -> Response:
        if request.headers.get("Authorization") != "Bearer matrixsecret":
            return Response('{"errcode":"M_UNKNOWN_TOKEN"}', status=401)
        if request.path.endswith("whoami"):
            return Response('{"user_id":"@bot:matrix.example"}', content_type=JSON)
        if "/join/" in request.path:
            self._expect_message()
            return Response(json.dumps({"room_id": ROOM}), content_type=JSON)
        self._take(body["body"], body)
        return Response('{"event_id":"$1"}', content_type=JSON)

    def _expect_message(self) -> None:
        """Take the message of the room, whose address ends in the client's own number."""
        import re

        self.server.expect_request(
            re.compile(r"/_matrix/client/v3/rooms/!room:matrix\.example/send/m\.room\.message/.+"),
            method="PUT",
        ).respond_with_handler(self._noted(self._matrix))


def _json_of(request: Request) -> Any:
    if not request.content_type or not request.content_type.startswith(JSON):
        return None
    try:
        return json.loads(request.get_data())
    except ValueError:
        return None
