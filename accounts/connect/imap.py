"""Access to a mailbox over IMAP and SMTP: what is stored, and how a session is opened and proven.

Every connection goes to a judged, pinned address (`accounts.hosts`), and nothing secret passes before TLS stands;
`plain` is for loopback alone.
"""

import contextlib
import imaplib
import re
import smtplib
import socket
import ssl
from dataclasses import dataclass, field
from typing import Any, Self, cast

from django.conf import settings
from imapclient import IMAPClient
from imapclient.exceptions import LoginError

from accounts.credentials import Secrets
from accounts.hosts import Endpoint, HostError, connect, start_tls

CONNECT_SECONDS = 15.0
NOT_ASCII = "A user name or password with letters outside ASCII cannot be used here."
# RFC 5530, section 3: what is no word about the password.
NOT_NOW = re.compile(r"\[(UNAVAILABLE|INUSE|LIMIT|SERVERBUG)\b", re.IGNORECASE)


class ConnectError(Exception):
    """A step did not succeed; `step` names it, the sentence holds no answer of the other side."""

    def __init__(self, step: str, sentence: str) -> None:
        super().__init__(step)
        self.step = step
        self.sentence = sentence

    def __str__(self) -> str:
        return self.sentence


class Unreachable(ConnectError):
    """No connection, or not now."""


class LoginRefused(ConnectError):
    """The user name or password was refused."""


@dataclass(frozen=True, kw_only=True)
class ImapAccess:
    """Where and as whom to sign in."""

    imap: Endpoint
    smtp: Endpoint
    username: str
    password: str = field(repr=False)

    def as_secrets(self) -> dict[str, Any]:
        return {
            "imap": _written(self.imap),
            "smtp": _written(self.smtp),
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


def _written(endpoint: Endpoint) -> str:
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    return f"{host}:{endpoint.port}:{endpoint.security}"


class _PinnedTls:
    """What imaplib and smtplib ask a TLS context for, answered for the endpoint's name by `hosts.start_tls`."""

    def __init__(self, host: str) -> None:
        self._host = host

    def wrap_socket(self, sock: socket.socket, server_hostname: str) -> ssl.SSLSocket:
        return start_tls(sock, host=self._host)


class _PinnedImap(imaplib.IMAP4):
    """imaplib on a socket that is connected already."""

    def __init__(self, endpoint: Endpoint, sock: socket.socket) -> None:
        self._ready = sock
        super().__init__(endpoint.host, endpoint.port)

    def _create_socket(self, timeout: float | None) -> socket.socket:
        return self._ready


class _PinnedImapClient(IMAPClient):
    """IMAPClient on a socket that is connected already, and inside TLS when the endpoint asks for it."""

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
            # What somebody slipped in before TLS stood would be taken for the server's word after it.
            self._imap.untagged_responses.clear()

    def _create_IMAP4(self) -> imaplib.IMAP4:
        return _PinnedImap(self._endpoint, self._ready)

    def _set_read_timeout(self) -> None:
        """The socket keeps the limit that `hosts.connect` gave it."""


class _PinnedSmtp(smtplib.SMTP):
    """smtplib on a socket that is connected already, and inside TLS when the endpoint asks for it."""

    def __init__(self, endpoint: Endpoint, sock: socket.socket, timeout: float) -> None:
        self._ready = sock
        # Without a name of its own smtplib asks the resolver for ours, unbounded, and tells it the server.
        super().__init__(endpoint.host, endpoint.port, local_hostname="[127.0.0.1]", timeout=timeout)
        try:
            self.ehlo_or_helo_if_needed()
            if endpoint.security == "starttls":
                self.starttls(context=cast(ssl.SSLContext, _PinnedTls(endpoint.host)))
                self.ehlo_or_helo_if_needed()
        except BaseException:
            self.close()  # nobody else has this client yet
            raise

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        return self._ready


def open_imap(
    access: ImapAccess, *, timeout: float = CONNECT_SECONDS, allow_loopback: bool | None = None
) -> IMAPClient:
    """A signed-in IMAP session. Raises Unreachable or LoginRefused."""
    sock = _socket(access.imap, "imap_connect", timeout, allow_loopback)
    try:
        client = _PinnedImapClient(access.imap, sock)
    except (IMAPClient.Error, HostError, OSError):
        sock.close()
        raise Unreachable("imap_connect", "The IMAP server did not offer a safe connection.") from None
    try:
        client.login(access.username, access.password)
    except LoginError as error:
        client.shutdown()
        if isinstance(error.__context__, IMAPClient.AbortError) or NOT_NOW.search(str(error)):
            raise Unreachable("imap_login", "The IMAP server broke off while signing in.") from None
        raise LoginRefused("imap_login", "The IMAP server refused the user name or password.") from None
    except UnicodeEncodeError:
        client.shutdown()
        raise LoginRefused("imap_login", NOT_ASCII) from None
    except (IMAPClient.Error, OSError):
        client.shutdown()
        raise Unreachable("imap_login", "The IMAP server broke off while signing in.") from None
    return client


def open_smtp(
    access: ImapAccess, *, timeout: float = CONNECT_SECONDS, allow_loopback: bool | None = None
) -> smtplib.SMTP:
    """An SMTP session that is ready for MAIL. Raises Unreachable or LoginRefused.

    It signs in when the server offers AUTH; a server that offers none takes mail by other rules of its own.
    """
    sock = _socket(access.smtp, "smtp_connect", timeout, allow_loopback)
    try:
        smtp = _PinnedSmtp(access.smtp, sock, timeout)
    except (smtplib.SMTPException, HostError, OSError):
        sock.close()
        raise Unreachable("smtp_connect", "The SMTP server did not offer a safe connection.") from None
    if not smtp.has_extn("auth"):
        return smtp
    try:
        smtp.login(access.username, access.password)
    except smtplib.SMTPAuthenticationError as error:
        smtp.close()
        if not 500 <= error.smtp_code < 600:
            raise Unreachable("smtp_login", "The SMTP server asks to come back later.") from None
        raise LoginRefused("smtp_login", "The SMTP server refused the user name or password.") from None
    except UnicodeEncodeError:
        smtp.close()
        raise LoginRefused("smtp_login", NOT_ASCII) from None
    except (smtplib.SMTPException, OSError):
        smtp.close()
        raise Unreachable("smtp_login", "The SMTP server broke off while signing in.") from None
    return smtp


def prove(access: ImapAccess, *, on_the_web: bool = False) -> None:
    """Sign in to both services and leave again; raises Unreachable or LoginRefused.

    On the web a host on loopback is refused like any inward one, sandbox or not: who signs in there need not be the one
    who runs the machine.
    """
    inward = settings.MAILHUB_WIZARD_REACHES_LOOPBACK if on_the_web else settings.MAILHUB_ALLOW_LOOPBACK_HOSTS
    open_imap(access, allow_loopback=inward).logout()
    open_smtp(access, allow_loopback=inward).quit()


def _socket(endpoint: Endpoint, step: str, timeout: float, allow_loopback: bool | None) -> socket.socket:
    if allow_loopback is None:
        allow_loopback = settings.MAILHUB_ALLOW_LOOPBACK_HOSTS
    try:
        sock = connect(endpoint, timeout=timeout, allow_loopback=allow_loopback)
    except HostError as error:
        raise Unreachable(step, str(error)) from None
    # A command goes out in several small writes; without this each waits 40 ms for the server's delayed ACK.
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock
