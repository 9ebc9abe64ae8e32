"""Sessions of `requests` for libraries that speak to hosts which users name.

Every request goes over `accounts.infra.safe_http`: the host filter, one resolution, no redirect and
no proxy. A session has a limit of requests and of seconds, so no library can retry or wait unseen.
"""

import http.client
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import requests
from requests.adapters import BaseAdapter
from requests.structures import CaseInsensitiveDict
from requests.utils import get_encoding_from_headers

from accounts.infra.foreign_text import parse_url
from accounts.infra.safe_hosts import Endpoint, HostError, HostRefused
from accounts.infra.safe_http import exchange

ANSWER_BYTES = 64 * 1024
# The caller decides these: a library or a user's URL must not.
_OURS = frozenset({"host", "connection", "content-length", "transfer-encoding", "accept-encoding"})
# A library would wait as long as the answer says.
_WAITS = frozenset({"retry-after", "x-ratelimit-remaining", "x-ratelimit-reset"})


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The last answer of a service, for the person whose channel it is."""

    status: int
    text: str


class PinnedSession(requests.Session):
    """Session whose requests all pass the host filter.

    It makes at most `limit` requests within `seconds`. `answer` is the last answer, `failure` the
    reason why there was none.
    """

    def __init__(self, *, seconds: float, ports: Collection[int], limit: int = 1) -> None:
        super().__init__()
        self.trust_env = False
        self.headers = CaseInsensitiveDict({"User-Agent": "mailhub"})
        self.adapters.clear()
        self.mount("https://", _Adapter(self))
        self.mount("http://", _Adapter(self))
        self.ports, self.ends, self.left = ports, time.monotonic() + seconds, limit
        self.answer: Answer | None = None
        self.failure: Exception | None = None

    def get_redirect_target(self, resp: requests.Response) -> None:
        """Return None: no redirect is followed, because it could lead to an internal host."""

    def refuse(self, reason: Exception) -> NoReturn:
        """Keep the reason, and raise what a library expects of `requests`."""
        self.failure = reason
        raise requests.ConnectionError(str(reason)) from None


class _Adapter(BaseAdapter):
    def __init__(self, session: PinnedSession) -> None:
        super().__init__()
        self._session = session

    def send(
        self,
        request: requests.PreparedRequest,
        stream: bool = False,
        timeout: Any = None,
        verify: Any = True,
        cert: Any = None,
        proxies: Mapping[str, str] | None = None,
    ) -> requests.Response:
        """Send one request over a checked connection; raises requests.ConnectionError."""
        session = self._session
        if session.left <= 0:  # a retry: the answer before it counts
            raise requests.ConnectionError("no further request")
        session.left -= 1
        seconds = session.ends - time.monotonic()
        if seconds <= 0:
            session.refuse(TimeoutError("The service takes too long."))
        try:
            return self._exchange(request, seconds)
        except (HostError, OSError, http.client.HTTPException, ValueError) as error:
            session.refuse(error)

    def _exchange(self, request: requests.PreparedRequest, seconds: float) -> requests.Response:
        session = self._session
        parts = parse_url(request.url or "")
        secure = parts.scheme == "https"
        host = parts.hostname or ""
        named = f"[{host}]" if ":" in host else host
        try:
            endpoint = Endpoint.parse(
                f"{named}:{parts.port or (443 if secure else 80)}:{'tls' if secure else 'plain'}"
            )
        except ValueError:
            raise HostRefused from None
        body = request.body.encode() if isinstance(request.body, str) else request.body
        if not (body is None or isinstance(body, bytes)):
            raise ValueError("a body that is not in memory")
        with exchange(
            endpoint,
            request.method or "",
            request.path_url,
            headers={k: _plain(v) for k, v in request.headers.items() if k.lower() not in _OURS},
            body=body,
            seconds=seconds,
            ports=session.ports,
        ) as answer:
            return self._respond(request, answer)

    def _respond(
        self, request: requests.PreparedRequest, answer: http.client.HTTPResponse
    ) -> requests.Response:
        response = requests.Response()
        response.status_code, response.reason = answer.status, answer.reason
        response.headers = CaseInsensitiveDict(
            {name: value for name, value in answer.getheaders() if name.lower() not in _WAITS}
        )
        response.encoding = get_encoding_from_headers(response.headers) or "utf-8"
        response.request, response.url = request, request.url or ""
        # It is read here, because the connection and its deadline end with this call.
        response._content, response._content_consumed = answer.read(ANSWER_BYTES), True
        self._session.answer = Answer(status=answer.status, text=response.text)
        return response

    def close(self) -> None:
        """Do nothing: each connection has ended with its request."""


def _plain(value: str | bytes) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else value
