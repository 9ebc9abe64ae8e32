"""Microsoft's sign-in service on loopback, over TLS as msal requires: numbered tokens without
content.
"""

import base64
import json
import threading
import time
from collections import deque
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from tests.support.servers.certificates import Authority

SECONDS = 10
TENANT = "7d9e7d40-0000-4000-8000-00000000c0de"
OID = "0d1d0000-0000-4000-8000-0000000000ad"
OPENID = {"openid", "profile", "offline_access"}


class SignInService:
    """The service: `issue(grant)` makes the access token; `errors` are answered first, each once,
    `refuses` as long as it is set, with the status `refuses_with`.

    `scope` is the consented set. As at Microsoft, a request with one permission outside of it is
    refused as a whole. `.default` means the whole set, and an answer names all of it. An
    application gets no scopes.
    """

    def __init__(self, folder: Path, issue: Callable[[dict[str, str]], str]) -> None:
        self.authority = Authority.create(folder)
        self.grants: list[dict[str, str]] = []
        self.scope = "Mail.ReadWrite Mail.Send User.Read openid profile offline_access"
        self.errors: deque[str] = deque()
        self.refuses, self.refuses_with = "", 400
        self.asked_by_device = ""
        # The account that signs in, as the id token names it; if empty, Microsoft sends no id
        # token.
        self.identity: dict[str, str] = {"oid": OID, "tid": TENANT}
        self.issue = issue
        self._http = _Server(("127.0.0.1", 0), _Handler)
        self._http.service = self
        self._http.socket = self.authority.server_context("127.0.0.1").wrap_socket(
            self._http.socket, server_side=True, do_handshake_on_connect=False
        )
        self.url = f"https://127.0.0.1:{self._http.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join(SECONDS)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    service: SignInService

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Do nothing: a client may disconnect."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        base = f"{self.server.service.url}{urlsplit(self.path).path.partition('/v2.0')[0]}"
        self._say(
            200,
            {
                "issuer": f"{base}/v2.0",
                "authorization_endpoint": f"{base}/oauth2/v2.0/authorize",
                "token_endpoint": f"{base}/oauth2/v2.0/token",
                "device_authorization_endpoint": f"{base}/oauth2/v2.0/devicecode",
            },
        )

    def do_POST(self) -> None:
        service = self.server.service
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        given = {name: values[0] for name, values in parse_qs(raw).items()}
        if self.path.endswith("/devicecode"):
            service.asked_by_device = given["scope"]
            self._say(
                200,
                {
                    "user_code": "ABCD-EFGH",
                    "device_code": "device",
                    "verification_uri": "https://sign.example/device",
                    "expires_in": 60,
                    "interval": 0,
                    "message": "Open https://sign.example/device and enter ABCD-EFGH.",
                },
            )
            return
        service.grants.append(given)
        error = service.errors.popleft() if service.errors else service.refuses
        if error:
            self._say(
                service.refuses_with,
                {
                    "error": error,
                    "error_description": "AADSTS700082: SIGN-IN TEXT",
                    "error_codes": [700082],
                },
            )
            return
        answer: dict[str, Any] = {"token_type": "Bearer", "expires_in": 3600}
        if given["grant_type"] != "client_credentials":
            asked = given.get("scope") or (
                service.asked_by_device if "device_code" in given else ""
            )
            if _names(asked) - _names(service.scope) - {".default"} - OPENID or not service.scope:
                self._say(
                    400,
                    {
                        "error": "invalid_grant",
                        "error_description": "AADSTS65001: SIGN-IN TEXT",
                        "error_codes": [65001],
                        "suberror": "consent_required",
                    },
                )
                return
            answer |= {"scope": service.scope, "refresh_token": f"refresh {len(service.grants)}"}
            if service.identity:
                answer["id_token"] = _id_token(service.identity, given)
        answer["access_token"] = service.issue(given)
        self._say(200, answer)

    def _say(self, status: int, body: dict[str, Any]) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def _id_token(identity: dict[str, str], given: dict[str, str]) -> str:
    """Return an id token without a real signature.

    The code of a sign-in in a browser carries its nonce.
    """
    claims = {
        "aud": given.get("client_id", ""),
        "sub": "s",
        "exp": int(time.time()) + 3600,
        **identity,
        "nonce": given.get("code", "").partition(":")[2],
    }
    parts: tuple[dict[str, Any], ...] = ({"alg": "none", "typ": "JWT"}, claims, {})
    return ".".join(
        base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts
    )


def _names(scope: str) -> set[str]:
    return {name.rpartition("/")[2] for name in scope.split()}
