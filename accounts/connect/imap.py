"""Access to a mailbox over IMAP and SMTP: the stored secrets, and sessions that are opened and
proven.

Every connection goes to a checked, pinned address (`accounts.infra.safe_hosts`). No secret is sent
before TLS is on; `plain` is only for loopback.
"""

import contextlib
import imaplib
import re
import smtplib
import socket
import ssl
import time
from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from io import BufferedReader
from typing import Any, Self, cast

from django.conf import settings
from imapclient import IMAPClient
from imapclient.exceptions import LoginError

from accounts.access.provider_calls import hold_content
from accounts.access.room import LARGE
from accounts.infra.credentials import Secrets
from accounts.infra.deadlines import Deadline
from accounts.infra.safe_hosts import Endpoint, HostError, connect, start_tls
from accounts.infra.texts import translatable

CONNECT_SECONDS = 15.0
SIGN_IN_SECONDS = 30.0  # until an IMAP session can be used
ANSWER_SECONDS = 30.0  # the longest silence of an IMAP server
LEAVE_SECONDS = 1.0
# RFC 5321, 4.5.3.2.1 to 4.5.3.2.3: a client waits five minutes for the greeting and for the answers
# to MAIL and RCPT.
COMMAND_SECONDS = 300.0
SIGN_IN_BYTES = 256 * 1024  # limit for an IMAP server before the session can be used
# For each later request: a message with its attachments, or a long list.
REQUEST_BYTES = 64 * 1024 * 1024
# A line is parsed word by word, so it costs Python more time and memory than a literal of its size.
LINE_COST, LINE_FACTOR = 512, 4
REPLY_BYTES = 64 * 1024  # one reply of an SMTP server, all its lines together
NOT_ASCII = translatable("A user name or password with letters outside ASCII cannot be used here.")
# RFC 5530, section 3: response codes that say nothing about the password. Gmail has only an [ALERT] for
# a sixteenth connection.
NOT_NOW = re.compile(
    r"\[(UNAVAILABLE|INUSE|LIMIT|SERVERBUG)\b|too many (\w+ )?connections", re.IGNORECASE
)


# The libraries raise these over an answer that breaks the protocol.
ODD_ANSWER = (AttributeError, LookupError, RecursionError, TypeError, ValueError)


class ConnectError(Exception):
    """Failure of the step `step`; the sentence holds no text from the provider."""

    def __init__(self, step: str, sentence: str) -> None:
        super().__init__(step)
        self.step = step
        self.sentence = sentence

    def __str__(self) -> str:
        return self.sentence


class Unreachable(ConnectError):
    """No connection, or none at the moment."""


class LoginRefused(ConnectError):
    """Refusal of the user name or password."""


@dataclass(frozen=True, kw_only=True)
class ImapAccess:
    """The servers of a mailbox, and the user name and password for both."""

    imap: Endpoint
    smtp: Endpoint
    username: str
    password: str = field(repr=False)

    def as_secrets(self) -> dict[str, Any]:
        return {
            "imap": _format_endpoint(self.imap),
            "smtp": _format_endpoint(self.smtp),
            "username": self.username,
            "password": self.password,
        }

    @classmethod
    def from_secrets(cls, secrets: Secrets) -> Self:
        return cls(
            imap=Endpoint.parse(secrets["imap"]),
            smtp=Endpoint.parse(secrets["smtp"]),
            username=secrets["username"],
            password=secrets["password"],
        )


def _format_endpoint(endpoint: Endpoint) -> str:
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    return f"{host}:{endpoint.port}:{endpoint.security}"


class _PinnedTls:
    """The part of a TLS context that imaplib and smtplib use; `safe_hosts.start_tls` checks the
    endpoint's name.
    """

    def __init__(self, host: str) -> None:
        self._host = host

    def wrap_socket(self, sock: socket.socket, server_hostname: str) -> ssl.SSLSocket:
        return start_tls(sock, host=self._host)


class _PinnedImap(imaplib.IMAP4):
    """imaplib on a socket that is already connected.

    The server may send `allowed` bytes; the session ends at the first literal or line beyond them.
    A literal counts as soon as the server names its size, because imaplib allocates all of it
    before the first byte arrives.
    """

    def __init__(self, endpoint: Endpoint, sock: socket.socket) -> None:
        self._ready = sock
        self.allowed, self.uncounted = SIGN_IN_BYTES, 0
        super().__init__(endpoint.host, endpoint.port)

    def _create_socket(self, timeout: float | None) -> socket.socket:
        return self._ready

    def read(self, size: int) -> bytes:
        self._spend(size)
        return super().read(size)

    def readline(self) -> bytes:
        try:
            line = super().readline()
        except self.abort:
            raise
        except self.error as error:  # a line that is too long is not a refusal
            raise self.abort(str(error)) from None
        self._spend(len(line) * LINE_FACTOR + LINE_COST)
        return line

    def _get_response(self) -> Any:
        try:
            return super()._get_response()  # type: ignore[misc]
        except ValueError:  # Python does not parse a number of so many digits
            raise self.abort("a literal of a size that is none") from None

    def _spend(self, size: int) -> None:
        self.allowed -= size
        if self.allowed < 0:
            raise self.abort("the answer is too long")
        self.uncounted += size
        if self.uncounted > LARGE:
            hold_content(self.uncounted)
            self.uncounted = 0


class _PinnedImapClient(IMAPClient):
    """IMAPClient on a connected socket, and inside TLS if the endpoint asks for it."""

    def __init__(self, endpoint: Endpoint, sock: socket.socket) -> None:
        self._endpoint, self._ready = endpoint, sock
        super().__init__(endpoint.host, port=endpoint.port, ssl=endpoint.security == "tls")
        self.normalise_times = False  # aware datetimes, not the server's local time
        if endpoint.security == "starttls":
            try:
                self.starttls(ssl_context=_PinnedTls(endpoint.host))
            except BaseException:
                with contextlib.suppress(OSError):
                    self.shutdown()  # nobody else has this client yet
                raise
            # An attacker could have injected responses before TLS began. They would be taken for
            # the server's own.
            self._imap.untagged_responses.clear()

    def _create_IMAP4(self) -> imaplib.IMAP4:
        return _PinnedImap(self._endpoint, self._ready)

    def _set_read_timeout(self) -> None:
        """Keep the timeout that the socket has."""


class PinnedSmtp(smtplib.SMTP):
    """smtplib on a connected socket, and inside TLS if the endpoint asks for it.

    The whole dialogue from the greeting on may take `seconds`; then the connection is cut.
    `wait_for` sets how long a single answer may take.
    """

    def __init__(self, endpoint: Endpoint, sock: socket.socket, seconds: float) -> None:
        self.mails = 0  # handed over in this session
        self._ready = sock
        self._deadline = Deadline(sock, seconds)
        sock.settimeout(COMMAND_SECONDS)
        try:
            # Without `local_hostname`, smtplib asks the resolver for our own name, without a time
            # limit, and tells it to the server.
            super().__init__(endpoint.host, endpoint.port, local_hostname="[127.0.0.1]")
            self.ehlo_or_helo_if_needed()
            if endpoint.security == "starttls":
                self.starttls(context=cast(ssl.SSLContext, _PinnedTls(endpoint.host)))
                self.ehlo_or_helo_if_needed()
        except BaseException:
            self.close()  # nobody else has this client yet
            raise

    def wait_for(self, seconds: float) -> None:
        """Bound each single operation from now on."""
        if self.sock is not None:
            self.sock.settimeout(seconds)

    def extend(self, seconds: float) -> bool:
        """Give the dialogue so many seconds from now; return False if its deadline has passed."""
        if self.sock is None or not self._deadline.stop():
            return False
        self._deadline = Deadline(self.sock, seconds)
        return True

    def getreply(self) -> tuple[int, bytes]:
        if self.file is None and self.sock is not None:
            self.file = cast(Any, _Replies(self.sock.makefile("rb")))
        if self.file is not None:
            cast(_Replies, self.file).begin()
        return super().getreply()

    def has_answered(self) -> bool:
        """Return True if there is an answer that nobody has read yet; do not wait for one."""
        if self.sock is None or self.file is None:
            return False
        seconds = self.sock.gettimeout()
        self.sock.settimeout(0)
        try:
            return cast(_Replies, self.file).is_there()
        finally:
            self.sock.settimeout(seconds)

    def close(self) -> None:
        self._deadline.stop()
        super().close()

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        return self._ready


class _Replies:
    """The answers of an SMTP server, line by line; one reply may have REPLY_BYTES in all."""

    def __init__(self, stream: BufferedReader) -> None:
        self._stream = stream
        self._left = 0

    def begin(self) -> None:
        self._left = REPLY_BYTES

    def is_there(self) -> bool:
        try:
            return bool(self._stream.peek(1))
        except ssl.SSLWantReadError:
            return False

    def readline(self, limit: int) -> bytes:
        line = self._stream.readline(limit)
        self._left -= len(line)
        # smtplib ends the dialogue on these errors. It would take the number of half a line.
        if self._left < 0:
            raise OSError("the reply is too long")
        if 0 < len(line) < limit and not line.endswith(b"\n"):
            raise OSError("the connection ended in the middle of a reply")
        return line

    def close(self) -> None:
        self._stream.close()


def open_imap(
    access: ImapAccess, *, seconds: float = SIGN_IN_SECONDS, loopback: Container[str] | None = None
) -> IMAPClient:
    """Return a signed-in IMAP session after at most `seconds`.

    Raises Unreachable or LoginRefused.
    """
    ends_at = time.monotonic() + seconds
    sock = _socket(access.imap, "imap_connect", min(seconds, CONNECT_SECONDS), loopback)
    sock.settimeout(min(seconds, ANSWER_SECONDS))
    deadline = Deadline(sock, max(ends_at - time.monotonic(), 0.0))
    try:
        return _sign_in(access, sock)
    finally:
        deadline.stop()


@contextlib.contextmanager
def conversation(client: IMAPClient, seconds: float) -> Iterator[None]:
    """Bound the calls in the block by `seconds`, and by the number of bytes from the server.

    The session ends when a bound is reached.
    """
    client._imap.allowed, client._imap.uncounted = REQUEST_BYTES, 0
    deadline = Deadline(client.socket(), seconds)
    try:
        yield
    finally:
        deadline.stop()


def _sign_in(access: ImapAccess, sock: socket.socket) -> IMAPClient:
    try:
        client = _PinnedImapClient(access.imap, sock)
    except (IMAPClient.Error, HostError, OSError, *ODD_ANSWER):
        sock.close()
        raise Unreachable(
            "imap_connect", "The IMAP server did not offer a safe connection."
        ) from None
    try:
        client.login(access.username, access.password)
        _introduce(client)
    except LoginError as error:
        client.shutdown()
        if isinstance(error.__context__, IMAPClient.AbortError) or NOT_NOW.search(str(error)):
            raise Unreachable(
                "imap_login", "The IMAP server closed the connection during the sign-in."
            ) from None
        raise LoginRefused(
            "imap_login", "The IMAP server refused the user name or password."
        ) from None
    except UnicodeEncodeError:
        client.shutdown()
        raise LoginRefused("imap_login", NOT_ASCII) from None
    except (IMAPClient.Error, OSError, *ODD_ANSWER):
        client.shutdown()
        raise Unreachable(
            "imap_login", "The IMAP server closed the connection during the sign-in."
        ) from None
    return client


def _introduce(client: IMAPClient) -> None:
    """Name the program where the server offers ID (RFC 2971).

    NetEase opens no folder before that: "Unsafe Login".
    """
    if not client.has_capability("ID"):
        return
    try:
        client.id_({"name": "mailhub"})
    except IMAPClient.AbortError:
        raise
    except IMAPClient.Error:
        pass  # a server may refuse it


def open_smtp(
    access: ImapAccess, *, seconds: float = SIGN_IN_SECONDS, loopback: Container[str] | None = None
) -> PinnedSmtp:
    """Return an SMTP session that is ready for MAIL; its dialogue ends after `seconds`, connecting
    included.

    The session signs in if the server offers AUTH. A server without AUTH accepts mail by its own
    rules. Raises Unreachable or LoginRefused.
    """
    ends_at = time.monotonic() + seconds
    sock = _socket(access.smtp, "smtp_connect", min(seconds, CONNECT_SECONDS), loopback)
    try:
        smtp = PinnedSmtp(access.smtp, sock, ends_at - time.monotonic())
    except (smtplib.SMTPException, HostError, OSError, *ODD_ANSWER):
        sock.close()
        raise Unreachable(
            "smtp_connect", "The SMTP server did not offer a safe connection."
        ) from None
    if not smtp.has_extn("auth"):
        return smtp
    try:
        smtp.login(access.username, access.password)
    except smtplib.SMTPAuthenticationError as error:
        smtp.close()
        if not 500 <= error.smtp_code < 600:
            raise Unreachable("smtp_login", "The SMTP server asks to try again later.") from None
        raise LoginRefused(
            "smtp_login", "The SMTP server refused the user name or password."
        ) from None
    except UnicodeEncodeError:
        smtp.close()
        raise LoginRefused("smtp_login", NOT_ASCII) from None
    except (smtplib.SMTPException, OSError, *ODD_ANSWER):
        smtp.close()
        raise Unreachable(
            "smtp_login", "The SMTP server closed the connection during the sign-in."
        ) from None
    return smtp


def prove(access: ImapAccess, *, on_the_web: bool = False) -> None:
    """Sign in to both services and leave again, in at most MAILHUB_PROVE_SECONDS; raises
    Unreachable or LoginRefused.

    On the web a loopback host is refused like any internal one: the person who signs in there may
    not be the person who runs the machine. Only an address of the sandbox may use its two servers.
    """
    for_people = on_the_web and not _is_of_sandbox(access)
    inward = (
        settings.MAILHUB_LOOPBACK_FOR_PEOPLE if for_people else settings.MAILHUB_LOOPBACK_SERVERS
    )
    ends_at = time.monotonic() + settings.MAILHUB_PROVE_SECONDS
    imap = open_imap(access, seconds=settings.MAILHUB_PROVE_SECONDS, loopback=inward)
    with contextlib.suppress(IMAPClient.Error, OSError), conversation(imap, LEAVE_SECONDS):
        imap.logout()
    with contextlib.suppress(OSError):
        imap.shutdown()
    smtp = open_smtp(
        access, seconds=max(ends_at - time.monotonic(), LEAVE_SECONDS), loopback=inward
    )
    with contextlib.suppress(smtplib.SMTPException, OSError):
        smtp.putcmd("quit")  # without waiting for the answer
    smtp.close()


def _is_of_sandbox(access: ImapAccess) -> bool:
    servers = settings.MAILHUB_SANDBOX_SERVERS_OF(access.username.strip().lower()) or ()
    return (access.imap, access.smtp) == tuple(map(Endpoint.parse, servers))


def _socket(
    endpoint: Endpoint, step: str, timeout: float, loopback: Container[str] | None
) -> socket.socket:
    if loopback is None:
        loopback = settings.MAILHUB_LOOPBACK_SERVERS
    try:
        sock = connect(endpoint, timeout=timeout, loopback=loopback)
    except HostError as error:
        raise Unreachable(step, str(error)) from None
    # A command goes out in several small writes. Without this option each waits 40 ms for the
    # server's delayed ACK.
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock
