"""Calls of the Gmail API: googleapiclient writes the requests, one kept HTTP client sends each
once.

The library's own transport (httplib2) posts a second time when an answer is lost, so it never gets
to the wire here. No retry, redirect or resend happens below the loop in `GmailClient._retry`, and
no call that sends goes through that loop.
"""

import functools
import os
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import httpx2
import structlog

from accounts.access.provider_calls import hold_content
from accounts.infra.database import give_back_connection
from accounts.infra.foreign_text import load_json
from accounts.infra.safe_hosts import tls_context
from approvals.core.types import BEFORE_WIRE
from tools.providers.errors import OutcomeUnknown, ProviderError, Unavailable
from tools.providers.gmail import batches, metrics
from tools.providers.gmail.answers import (
    Answer,
    error_of_reading,
    error_of_sending,
    parse_answer,
)

log = structlog.get_logger(__name__)

AT_ONCE = 3  # requests on one mailbox, in this process
# Gmail carries out all requests of a batch at once and refuses those over one user's limit: most of
# 100, none of 25 (https://github.com/googleapis/google-api-dotnet-client/issues/1982).
TOGETHER = 25
READ_SECONDS = 30.0
CONNECT_SECONDS = 15.0
TOO_OFTEN_WAITS = (1.0, 2.0, 4.0)
BROKEN_WAITS = (1.0, 2.0)
LONGEST_WAIT = 8.0  # a person waits for a read; a longer wait becomes an error

# The library raises these if an answer is not the JSON, or not the batch, that it should be.
UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, IndexError)

Build = Callable[[Any], Any]
BuildOne = Callable[[Any, str], Any]
PLACE = "0-the-id-0"  # replaced by the id of each item of a batch
# https://developers.google.com/workspace/gmail/api/guides/batch
BATCH_PATH, OTHER_BATCH_PATH = "batch", "batch/gmail/v1"
_batch_paths: dict[str, str] = {}
_slots: defaultdict[object, threading.BoundedSemaphore] = defaultdict(
    lambda: threading.BoundedSemaphore(AT_ONCE)
)
_slots_lock = threading.Lock()


class NotOnTheWire(Exception):
    """No connection was made, so no byte of the request has left."""


class AnswerLost(Exception):
    """The request may have arrived, but no answer came back."""


class Failed(Exception):
    """An error answer of Gmail."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.status)
        self.answer = answer


class GmailClient:
    """The calls on one mailbox.

    `token` returns a usable access token; its argument is a token that was refused, or empty. It
    raises NotAuthorized or Unavailable. `sleep` waits between two attempts of a read.
    """

    def __init__(
        self,
        *,
        token: Callable[[str], str],
        key: object,
        base_url: str,
        answer_seconds: float,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._token = token
        self._slots = _slots_of(key)
        self._base_url = base_url
        self._answer_seconds = answer_seconds
        self._sleep = sleep

    def read(self, name: str, build: Build, *, patient: bool = True) -> Any:
        """Make a read that `build` writes on the users resource. Raises NotSent errors.

        If Gmail reports too many requests, the read is repeated 3 times, after 1, 2 and 4 s. If
        Gmail is broken, it is repeated twice, after 1 and 2 s. With `patient=False` the caller
        repeats it instead.
        """
        return self._retry(lambda: self._once(name, build), patient=patient)

    def write(self, name: str, build: Build, *, scope: str) -> Any:
        """Make a change that sends nothing, once; it needs the permission `scope`. Raises NotSent errors."""
        try:
            return self._once(name, build)
        except Failed as failed:
            raise error_of_reading(failed.answer, scope=scope) from None
        except (NotOnTheWire, AnswerLost):
            raise Unavailable("connection_lost", "Gmail did not answer.") from None

    def send(self, name: str, build: Build, *, wire_started: Callable[[], None]) -> Any:
        """Make the one call after which the mail may have gone out.

        Raises NotSent errors or OutcomeUnknown.
        """
        try:
            return self._once(name, build, sending=wire_started)
        except Failed as failed:
            raise error_of_sending(failed.answer) from None
        except NotOnTheWire:
            error = Unavailable("connection_lost", "Gmail cannot be reached.")
            error.proof = BEFORE_WIRE
            raise error from None
        except AnswerLost:
            raise OutcomeUnknown("answer_lost", "The connection to Gmail broke off.") from None

    def each(self, name: str, build: BuildOne, ids: Sequence[str], *, again: bool) -> list[Any]:
        """Make the same read of several things, 25 in one request. Return the answers in order,
        with a ProviderError in the place of each read that failed.

        `again`: temporary failures are repeated in a smaller batch.
        """
        # Build the request once: the library takes a millisecond for each.
        pattern = build(users_of(self._base_url), PLACE).uri
        uris = [pattern.replace(PLACE, quote(id_, safe="")) for id_ in ids]
        found: list[Any] = [None] * len(uris)
        waits = iter(TOO_OFTEN_WAITS)
        left = list(range(len(uris)))
        while left:
            for first in range(0, len(left), TOGETHER):
                places = left[first : first + TOGETHER]
                asked = [uris[place] for place in places]
                answers = self._retry(functools.partial(self._batch, name, asked), patient=True)
                for place, answer in zip(places, answers, strict=True):
                    found[place] = answer
            left = [place for place in left if isinstance(found[place], Unavailable)]
            wait = next(waits, None)
            if not again or wait is None:
                break
            if left:
                self._sleep(wait)
        return found

    def _retry(self, call: Callable[[], Any], *, patient: bool) -> Any:
        too_often, broken = iter(TOO_OFTEN_WAITS), iter(BROKEN_WAITS)
        while True:
            try:
                return call()
            except Failed as failed:
                error: ProviderError = error_of_reading(failed.answer)
                waits = too_often if failed.answer.is_too_often else broken
            except (NotOnTheWire, AnswerLost):
                error, waits = Unavailable("connection_lost", "Gmail did not answer."), broken
            if not patient or not isinstance(error, Unavailable):
                raise error
            asked = error.retry_after or 0
            wait = next(waits, None)
            if wait is None or asked > LONGEST_WAIT:
                raise error
            log.warning(
                "gmail_asked_again", provider="gmail", code=error.code, retry_after=max(wait, asked)
            )
            self._sleep(max(wait, asked))

    def _once(self, name: str, build: Build, *, sending: Callable[[], None] | None = None) -> Any:
        request = build(users_of(self._base_url))

        def call(carrier: "_Carrier") -> Any:
            answer = request.execute(http=carrier, num_retries=0)
            if isinstance(answer, str | bytes) and request.method != "DELETE":
                raise ValueError("no JSON")  # the library passes it on unread
            return answer

        return self._carry(name, call, sending)

    def _batch(self, name: str, uris: Sequence[str]) -> list[Any]:
        """Use the path of the library's description, or the path of Gmail's guide if a server knows
        only that one.
        """
        try:
            return self._batch_at(_batch_paths.get(self._base_url, BATCH_PATH), name, uris)
        except Failed as failed:
            if failed.answer.status != 404 or self._base_url in _batch_paths:
                raise
            _batch_paths[self._base_url] = OTHER_BATCH_PATH
        return self._batch_at(OTHER_BATCH_PATH, name, uris)

    def _batch_at(self, path: str, name: str, uris: Sequence[str]) -> list[Any]:
        """Send one batch without the library's own batch code.

        The library insists on ids in the answer, and sends everything again if the token was
        refused.
        """
        kind, body = batches.write_batch(uris)
        uri = f"{self._base_url.rstrip('/')}/{path}"

        def call(carrier: "_Carrier") -> list[Any]:
            answer, content = carrier.request(uri, "POST", body, {"content-type": kind})
            if carrier.status >= 300:
                raise Failed(parse_answer(carrier.status, answer, content, now=datetime.now(UTC)))
            return batches.read(answer["content-type"], content, count=len(uris))

        answers: list[dict[str, Any] | Answer] = self._carry(f"batch.{name}", call, None)
        # A batch is answered with 200 even if requests in it failed, and each request counts for
        # Gmail's limits.
        counts = Counter(each.counted_as if isinstance(each, Answer) else "200" for each in answers)
        for status, count in counts.items():
            metrics.REQUESTS.labels(method=name, status=status).inc(count)
        if counts["429"]:
            log.warning("gmail_asked_too_often", provider="gmail", route=name, count=counts["429"])
        return [each if isinstance(each, dict) else error_of_reading(each) for each in answers]

    def _carry(
        self, name: str, call: Callable[["_Carrier"], Any], sending: Callable[[], None] | None
    ) -> Any:
        # Imported here because it costs 0.5 s and 33 MB, and not every installation has a Gmail
        # mailbox.
        from googleapiclient.errors import HttpError

        token = self._token("")
        started, failed = time.monotonic(), None
        carrier = _Carrier(token=token, sending=sending, answer_seconds=self._answer_seconds)
        try:
            with self._slots:
                return call(carrier)
        except (HttpError, Failed) as error:
            failed = error if isinstance(error, Failed) else Failed(_answer_of(error))
            if carrier.status == 401:
                # Renewed for the next call, or NotAuthorized; this call is not repeated.
                self._token(token)
            raise failed from None
        except UNREADABLE:
            if sending and 200 <= carrier.status < 300:
                return {}  # accepted, even if the body is unreadable
            raise AnswerLost from None
        finally:
            status = failed.answer.counted_as if failed else str(carrier.status or "none")
            metrics.REQUESTS.labels(method=name, status=status).inc()
            log.info(
                "gmail_called",
                provider="gmail",
                method=carrier.method,
                endpoint=name,
                status=carrier.status,
                duration_ms=round((time.monotonic() - started) * 1000),
            )


class _Carrier:
    """A transport for googleapiclient: each request goes out unchanged, once, with the token."""

    def __init__(
        self, *, token: str, sending: Callable[[], None] | None, answer_seconds: float
    ) -> None:
        self._token = token
        self._sending = sending
        self._answer_seconds = answer_seconds
        self.method = ""
        self.status = 0

    def request(
        self, uri: str, method: str = "GET", body: Any = None, headers: Any = None, **_: Any
    ) -> Any:
        from httplib2 import Response  # a header map that googleapiclient expects; loaded with it

        http = _clients().sending if self._sending else _clients().reading
        seconds = self._answer_seconds if self._sending else READ_SECONDS
        self.method = method
        if self._sending:
            self._sending()
        give_back_connection()
        try:
            answer = http.request(
                method,
                uri,
                content=body,
                headers={**(headers or {}), "authorization": f"Bearer {self._token}"},
                timeout=httpx2.Timeout(seconds, connect=CONNECT_SECONDS, pool=CONNECT_SECONDS),
            )
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout):
            raise NotOnTheWire from None
        except (httpx2.HTTPError, httpx2.InvalidURL):
            raise AnswerLost from None
        self.status = answer.status_code
        if method == "GET":
            hold_content(len(answer.content))
        return Response({**answer.headers, "status": str(answer.status_code)}), answer.content


@dataclass(frozen=True, kw_only=True)
class _Clients:
    """The HTTP clients of this process. Reads share kept connections.

    The sending call has its own client: a kept connection may be dead without a sign, and the
    outcome of the mail would be unknown for no reason.
    """

    reading: httpx2.Client
    sending: httpx2.Client


def _clients() -> _Clients:
    # Two processes on one connection would read each other's answers.
    return _clients_of(os.getpid())


@functools.cache
def _clients_of(_pid: int) -> _Clients:
    def open_client(limits: httpx2.Limits) -> httpx2.Client:
        return httpx2.Client(
            verify=tls_context(), follow_redirects=False, trust_env=False, limits=limits
        )

    return _Clients(
        reading=open_client(httpx2.Limits()),
        sending=open_client(httpx2.Limits(max_keepalive_connections=0)),
    )


def _slots_of(key: object) -> threading.BoundedSemaphore:
    with _slots_lock:
        return _slots[key]


class _Users:
    """The library's resource of a user, with its parts built once: the library builds them again at
    each use.
    """

    def __init__(self, users: Any) -> None:
        self._users = users
        self._made = {
            name: getattr(users, name)() for name in ("messages", "drafts", "labels", "threads")
        }

    def __getattr__(self, name: str) -> Any:
        made = self._made.get(name)
        return getattr(self._users, name) if made is None else lambda: made


@functools.lru_cache(maxsize=4)
def users_of(base_url: str) -> Any:
    """Return the API of the library's own static description, at `base_url`; shared by all
    threads.
    """
    from googleapiclient.discovery import build_from_document
    from googleapiclient.discovery_cache import get_static_doc

    document = load_json(get_static_doc("gmail", "v1"))
    document["rootUrl"] = f"{base_url.rstrip('/')}/"
    gmail = build_from_document(document, http=_Carrier(token="", sending=None, answer_seconds=0))
    return _Users(gmail.users())


def _answer_of(error: Any) -> Answer:
    return parse_answer(int(error.resp.status), error.resp, error.content, now=datetime.now(UTC))
