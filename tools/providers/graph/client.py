"""Calls to Graph: one HTTP request each, with a token, at most three at once on a mailbox.

No library repeats them. A read may be repeated once with a new token. A call that sends is made
once, on its own connection.
"""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any
from urllib.parse import quote, unquote, urljoin

import httpx2

from accounts.access.provider_calls import hold_content
from accounts.access.room import LARGE
from accounts.connect.refreshing import GrantEnded, NoToken
from accounts.infra.database import give_back_connection
from accounts.infra.foreign_text import parse_url
from accounts.infra.texts import translatable
from approvals.core.types import BEFORE_WIRE
from tools.providers.errors import NotAuthorized, OutcomeUnknown, Refused, Unavailable
from tools.providers.graph.answers import Answer, json_of, refusal
from tools.providers.graph.call_log import log_call
from tools.providers.graph.slots import hold_slot

WRITE = "Mail.ReadWrite"  # the permission of every call that changes drafts or messages
PAGES = 50  # the most pages of one list that are followed
ANSWER_LIMIT = 64 * 1024 * 1024
READING = httpx2.Timeout(30.0, connect=10.0)
IMMUTABLE = 'IdType="ImmutableId"'  # an id that survives the move from Drafts to Sent

KEY = re.compile(r"\('([^']*)'\)")  # OData's other spelling of `/key`
LITERAL = "',():/$;="  # may be in a query unescaped

Params = Mapping[str, str | int]
Tokens = Callable[[str], str]
Transports = Callable[[], httpx2.BaseTransport]


class GraphClient:
    """A client for Graph. `tokens(rejected)` returns a token other than the rejected one; `root` is
    `/me` or `/users/{address}`.

    `transport` serves all reads. `transports` opens a new connection for each message that is
    handed over, so that a connection that the server has just closed cannot lose it.
    """

    def __init__(
        self,
        base_url: str,
        root: str,
        *,
        tokens: Tokens,
        key: object,
        transport: httpx2.BaseTransport,
        transports: Transports,
    ) -> None:
        self._base, self._root = base_url, root
        self._tokens, self._key = tokens, key
        self._transport, self._transports = transport, transports

    def sign_in(self) -> None:
        """Get a token; raise ProviderError if there is no token."""
        self._token()

    def get(
        self,
        path: str,
        params: Params | None = None,
        *,
        scope: str = "Mail.Read",
        prefer: str = "",
        raw: bool = False,
    ) -> Answer:
        return self.call("GET", path, scope=scope, params=params, prefer=prefer, raw=raw)

    def rows(
        self, path: str, params: Params | None = None, *, enough: int = 0
    ) -> list[dict[str, Any]]:
        """Return the rows of a list from all of its pages, or until there are `enough`.

        Only a page without a nextLink is the last one, even if another page has few rows.
        """
        answer = self.get(path, params)
        rows = answer.rows()
        for _ in range(PAGES):
            if not answer.following or (enough and len(rows) >= enough):
                return rows
            answer = self.follow(answer.following)
            rows += answer.rows()
        raise Refused(
            "too_large",
            translatable(
                "Microsoft 365 gives this list in more than %(pages)s pages.", pages=PAGES
            ),
        )

    def follow(self, url: str, *, scope: str = "Mail.Read") -> Answer:
        """Follow an `@odata.nextLink` of this server in this mailbox, and refuse every other
        address.
        """
        url = urljoin(f"{self._base}/", url) if url else ""
        if not _normalize_url(url).startswith(f"{_normalize_url(self._base + self._root)}/"):
            raise Refused("invalid_page_token", "This page token is not from this list.")
        return self._check(self._ask("GET", url), scope)

    def call(
        self,
        method: str,
        path: str,
        *,
        scope: str,
        params: Params | None = None,
        json: Any = None,
        prefer: str = "",
        raw: bool = False,
    ) -> Answer:
        """Make one call that sends no mail. Raises ProviderError."""
        answer = self._ask(method, self.url(path), params=params, json=json, prefer=prefer, raw=raw)
        return self._check(answer, scope)

    def upload(self, url: str, content: bytes, *, first: int, total: int) -> None:
        """Upload one piece of an upload session.

        The address itself is the permission, so no token is sent to it.
        """
        said = {
            "Content-Type": "application/octet-stream",
            "Content-Range": f"bytes {first}-{first + len(content) - 1}/{total}",
        }
        answer = self._exchange("PUT", url, headers=said, content=content)
        if answer.status in (404, 410):  # another session begins with another draft
            raise Unavailable(
                "unreachable",
                translatable("Microsoft 365 answered %(status)s.", status=answer.status),
            )
        if not answer.ok:
            raise refusal(answer, scope=WRITE)

    def hand_over(
        self,
        path: str,
        content: bytes = b"",
        *,
        sort: str = "",
        wire_started: Callable[[], None],
        answer_seconds: float,
    ) -> None:
        """Make the one call that sends; `sort` is the media type of its content.

        Without a clear answer the result is OutcomeUnknown; the call is never repeated here.

        1. Get a token and a new connection, both before `wire_started`.
        2. Make the request. 2xx means accepted, even if the connection ends during the answer.
        3. 429 and 401 mean later, other 4xx mean refused; everything else is unknown. Whether such
           a refusal proves anything is for the caller to find out.
        """
        token = self._token()
        timeout = httpx2.Timeout(answer_seconds, connect=10.0)
        with (
            hold_slot(self._key),
            log_call("POST", self.url(path)) as logged,
            httpx2.Client(transport=self._transports(), timeout=timeout, trust_env=False) as http,
        ):
            headers = self._headers(token) | ({"Content-Type": sort} if sort else {})
            request = http.build_request("POST", self.url(path), headers=headers, content=content)
            wire_started()
            try:
                response = http.send(request, stream=True, follow_redirects=False)
            except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.UnsupportedProtocol):
                error = Unavailable("unreachable", "Microsoft 365 cannot be reached.")
                error.proof = BEFORE_WIRE  # there was no connection
                raise error from None
            except httpx2.HTTPError:
                raise OutcomeUnknown("no_answer") from None
            logged.status = response.status_code
            answer = Answer(
                status=response.status_code, retry_after=response.headers.get("Retry-After")
            )
            if not 400 <= answer.status < 500:
                response.close()
                if answer.ok:
                    return
                raise OutcomeUnknown(f"http_{answer.status}")
            with suppress(httpx2.HTTPError):
                response.read()
                answer = replace(answer, body=json_of(response.content))
            response.close()
        if answer.status == 408:
            raise OutcomeUnknown("http_408")
        if answer.status == 401:
            self._token(rejected=token)  # for the next attempt; raises if the grant has ended
            raise Unavailable("token_refused", "Microsoft 365 refused the access token.")
        raise refusal(answer, scope="Mail.Send")

    def url(self, path: str, params: Params | None = None) -> str:
        return _add_query(f"{self._base}{self._root}{path}", params)

    def _ask(self, method: str, url: str, **options: Any) -> Answer:
        token = self._token()
        answer = self._exchange(method, url, headers=self._headers(token), **options)
        if answer.status == 401:
            answer = self._exchange(
                method, url, headers=self._headers(self._token(rejected=token)), **options
            )
        return answer

    def _exchange(
        self,
        method: str,
        url: str,
        *,
        headers: dict[str, str],
        params: Params | None = None,
        json: Any = None,
        content: bytes | None = None,
        prefer: str = "",
        raw: bool = False,
    ) -> Answer:
        if prefer:
            headers = {**headers, "Prefer": f"{IMMUTABLE}, {prefer}"}
        # No context manager: it would close the transport, which other requests share.
        http = httpx2.Client(transport=self._transport, timeout=READING, trust_env=False)
        address = _add_query(url, params)
        body: dict[str, Any] = (
            {"json": json} if json is not None else {"content": content} if content else {}
        )
        give_back_connection()
        try:
            with (
                hold_slot(self._key),
                log_call(method, url) as logged,
                http.stream(
                    method, address, headers=headers, follow_redirects=False, **body
                ) as response,
            ):
                logged.status = response.status_code
                found, counted = bytearray(), 0
                for piece in response.iter_bytes():
                    found += piece
                    if method == "GET" and len(found) - counted > LARGE:
                        hold_content(len(found) - counted)
                        counted = len(found)
                    if len(found) > ANSWER_LIMIT:
                        raise Refused(
                            "too_large",
                            translatable(
                                "The answer is larger than %(answer_limit)s bytes.",
                                answer_limit=f"{ANSWER_LIMIT:,}",
                            ),
                        )
                return Answer(
                    status=response.status_code,
                    body=None if raw and response.is_success else json_of(bytes(found)),
                    content=bytes(found) if raw else b"",
                    retry_after=response.headers.get("Retry-After"),
                )
        except httpx2.HTTPError:
            raise Unavailable("unreachable", "Microsoft 365 cannot be reached.") from None

    def _check(self, answer: Answer, scope: str) -> Answer:
        if not answer.ok:
            raise refusal(answer, scope=scope)
        return answer

    def _headers(self, token: str) -> dict[str, str]:
        return {
            "Authorization": f"Bearer {token}",
            "Prefer": IMMUTABLE,
            "Accept": "application/json",
        }

    def _token(self, *, rejected: str = "") -> str:
        try:
            return self._tokens(rejected)
        except GrantEnded:
            raise NotAuthorized(
                "auth_error", "Microsoft 365 ended the sign-in of this mailbox."
            ) from None
        except NoToken as error:
            detail = "Microsoft 365 gave no access token."
            raise Unavailable("no_token", detail, retry_after=error.retry_after) from None


def _add_query(url: str, params: Params | None) -> str:
    """Return the address with these parameters: OData wants an unescaped `$`, and a space as %20."""
    query = "&".join(
        f"{name}={quote(str(value), safe=LITERAL)}" for name, value in (params or {}).items()
    )
    return f"{url}{'&' if '?' in url else '?'}{query}" if query else url


def _normalize_url(url: str) -> str:
    """Return an address in a comparable form, or an empty string if its path leads upwards.

    Graph may answer `/users/a@b` with `/users/a%40b` or `/users('a@b')`.
    """
    parts = parse_url(url)
    path = KEY.sub(r"/\1", unquote(parts.path)).lower()
    return "" if {".", ".."} & set(path.split("/")) else f"{parts.scheme}://{parts.netloc}{path}"
