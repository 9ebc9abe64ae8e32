"""The IMAP service: pymap's protocol engine with the accounts and mailboxes of the sandbox."""

from __future__ import annotations

import asyncio
import logging
import ssl
from argparse import Namespace
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from socket import socket
from typing import Any, cast

from proxyprotocol.sock import SocketInfoLocal
from pymap.backend.session import BaseSession
from pymap.config import BackendCapability, IMAPConfig
from pymap.exceptions import AuthorizationFailure, InvalidAuth, NotAllowedError
from pymap.imap import IMAPServer
from pymap.interfaces.login import IdentityInterface, LoginInterface
from pymap.interfaces.token import TokensInterface
from pymap.selected import SelectedMailbox
from pymap.token import AllTokens
from pymap.user import UserMetadata
from pysasl import SASLAuth
from pysasl.creds.server import ServerCredentials
from pysasl.exception import AuthenticationError
from pysasl.hashing import Cleartext
from pysasl.identity import ClearIdentity

from mailhub.sandbox.mailbox import MailboxSet
from mailhub.sandbox.message import Message
from mailhub.sandbox.state import Account

log = logging.getLogger(__name__)

SPECIAL_USE = {"Sent": b"Sent", "Drafts": b"Drafts"}
# A command is one line, except for its literals. Long lists of UIDs need room.
LINE_LIMIT = 1024 * 1024


class WholeAnswers:
    """A stream writer that holds an answer back until it is complete.

    pymap writes in small pieces, and IMAPClient takes half a line during IDLE for a lost
    connection.
    """

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._pending = bytearray()

    def write(self, data: bytes) -> None:
        self._pending += data

    async def drain(self) -> None:
        if self._pending:
            self._writer.write(bytes(self._pending))
            self._pending.clear()
        await self._writer.drain()

    def close(self) -> None:
        self._writer.close()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._writer.get_extra_info(name, default)


class Config(IMAPConfig):
    """Settings for pymap: no TLS, passwords in the clear, every connection local."""

    def __init__(self, host: str, port: int, size_limit: int) -> None:
        super().__init__(
            Namespace(proxy_protocol=None, passlib_cfg=None),
            host=host,
            port=port,
            tls_enabled=False,
            # Never used, but without it pymap would take a certificate from the
            # environment.
            ssl_context=ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER),
            hash_context=Cleartext(),
            reject_dnsbl=False,
            max_append_len=size_limit,
            invalid_user_sleep=0.0,
        )

    @property
    def backend_capability(self) -> BackendCapability:
        return BackendCapability(
            idle=True, object_id=False, multi_append=True, custom=[b"SPECIAL-USE"]
        )

    @property
    def tls_auth(self) -> SASLAuth:
        return SASLAuth.named([b"PLAIN", b"LOGIN"])

    @property
    def greeting(self) -> bytes:
        # pymap's own greeting asks the resolver for the name of this machine, which can take
        # seconds.
        return b"Sandbox ready."


class Session(BaseSession[Message]):
    """The commands of a signed-in connection."""

    def __init__(self, owner: str, config: Config, mailbox_set: MailboxSet) -> None:
        super().__init__(owner)
        self._config = config
        self._mailbox_set = mailbox_set

    @property
    def config(self) -> Config:
        return self._config

    @property
    def mailbox_set(self) -> MailboxSet:
        return self._mailbox_set

    async def list_mailboxes(
        self,
        ref_name: str,
        filter_: str,
        subscribed: bool = False,
        selected: SelectedMailbox | None = None,
    ) -> tuple[Iterable[tuple[str, str | None, Sequence[bytes]]], SelectedMailbox | None]:
        found, selected = await super().list_mailboxes(ref_name, filter_, subscribed, selected)
        marked = [
            (
                name,
                delimiter,
                [*attributes, SPECIAL_USE[name]] if name in SPECIAL_USE else attributes,
            )
            for name, delimiter, attributes in found
        ]
        return marked, selected


class Identity(IdentityInterface):
    """A person who has signed in."""

    def __init__(self, name: str, config: Config, mailbox_set: MailboxSet) -> None:
        self._name = name
        self._config = config
        self._mailbox_set = mailbox_set

    @property
    def name(self) -> str:
        return self._name

    @property
    def roles(self) -> frozenset[str]:
        return frozenset()

    @asynccontextmanager
    async def new_session(self) -> AsyncIterator[Session]:
        yield Session(self._name, self._config, self._mailbox_set)

    async def new_token(self, *, expiration: datetime | None = None) -> str | None:
        return None

    async def get(self) -> UserMetadata:
        return UserMetadata(self._config, self._name)

    async def set(self, metadata: UserMetadata) -> int | None:
        raise NotAllowedError()

    async def delete(self) -> None:
        raise NotAllowedError()


class Login(LoginInterface):
    """The check of names and passwords."""

    def __init__(
        self, config: Config, accounts: Iterable[Account], mailboxes: Mapping[str, MailboxSet]
    ) -> None:
        self._config = config
        self._tokens = AllTokens(config)
        self._accounts = {account.address: account for account in accounts}
        self._mailboxes = mailboxes

    @property
    def tokens(self) -> TokensInterface:
        return self._tokens

    async def authenticate(self, credentials: ServerCredentials) -> Identity:
        account = self._accounts.get(credentials.authcid.lower())
        if account is None:
            raise InvalidAuth()
        try:
            # The name was compared above, without regard to case.
            right = credentials.verify(ClearIdentity(credentials.authcid, account.password))
        except (AuthenticationError, ValueError):
            # The password has characters that SASLprep does not allow.
            right = False
        if not right:
            raise InvalidAuth()
        return Identity(account.address, self._config, self._mailboxes[account.address])

    async def authorize(self, authenticated: IdentityInterface, authzid: str) -> Identity:
        if authzid.lower() != authenticated.name:
            raise AuthorizationFailure()
        return Identity(authenticated.name, self._config, self._mailboxes[authenticated.name])


class ImapService:
    """A server that accepts IMAP connections until it is closed."""

    def __init__(
        self, accounts: Iterable[Account], mailboxes: Mapping[str, MailboxSet], *, size_limit: int
    ) -> None:
        self._accounts = tuple(accounts)
        self._mailboxes = mailboxes
        self._size_limit = size_limit
        self._connections: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def start(self, listener: socket) -> None:
        """Begin to accept on a socket that is already bound."""
        host, port = listener.getsockname()[:2]
        config = Config(host, port, self._size_limit)
        config.apply_context()
        engine = IMAPServer(Login(config, self._accounts, self._mailboxes), config)

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._connections.add(task)
            try:
                whole = cast(asyncio.StreamWriter, WholeAnswers(writer))
                await engine(reader, whole, SocketInfoLocal(writer))
            except Exception as error:
                # Only the class, because the message of a parser's exception can quote mail.
                log.warning("an IMAP connection ended with %s", type(error).__name__)
            finally:
                self._connections.discard(task)

        self._server = await asyncio.start_server(serve, sock=listener, limit=LINE_LIMIT)

    async def close(self) -> None:
        """Stop accepting, and end every open connection with BYE."""
        if self._server is not None:
            self._server.close()
        open_connections = set(self._connections)
        for task in open_connections:
            task.cancel()
        if open_connections:
            await asyncio.wait(open_connections, timeout=1)
