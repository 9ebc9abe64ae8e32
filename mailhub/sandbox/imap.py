"""The IMAP service: pymap's protocol engine with the accounts and mailboxes of the sandbox.

The classes for people come from pymap's memory backend, which gets our folders instead of its own.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from argparse import Namespace
from collections.abc import Iterable, Mapping
from socket import socket
from typing import Any, cast

from proxyprotocol.sock import SocketInfoLocal
from pymap.backend import dict as memory
from pymap.backend.dict.filter import FilterSet
from pymap.config import BackendCapability
from pymap.exceptions import InvalidAuth
from pymap.imap import IMAPServer
from pymap.interfaces.login import IdentityInterface
from pymap.user import UserMetadata
from pysasl import SASLAuth
from pysasl.creds.server import ServerCredentials
from pysasl.exception import AuthenticationError
from pysasl.hashing import Cleartext
from pysasl.identity import ClearIdentity

from mailhub.sandbox.mailbox import MailboxSet
from mailhub.sandbox.state import Account

log = logging.getLogger(__name__)

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


class Config(memory.Config):
    """Settings for pymap: no TLS, passwords in the clear, every connection local."""

    def __init__(self, host: str, port: int, size_limit: int) -> None:
        super().__init__(
            Namespace(proxy_protocol=None, passlib_cfg=None),
            demo_data=False,
            demo_user="",
            demo_password="",
            host=host,
            port=port,
            tls_enabled=False,
            # Never used, but without it pymap would take a certificate from the
            # environment.
            ssl_context=ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER),
            hash_context=Cleartext(),
            reject_dnsbl=False,
            max_append_len=size_limit,
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


class Login(memory.Login):
    """The check of names and passwords; a name counts without regard to case."""

    def __init__(
        self, config: Config, accounts: Iterable[Account], mailboxes: Mapping[str, MailboxSet]
    ) -> None:
        super().__init__(config)
        for account in accounts:
            address = account.address
            self.users_dict[address] = UserMetadata(config, address, password=account.password)
            config.set_cache[address] = (cast(Any, mailboxes[address]), FilterSet())

    async def authenticate(self, credentials: ServerCredentials) -> memory.Identity:
        user = self.users_dict.get(credentials.authcid.lower())
        try:
            right = user is not None and credentials.verify(
                ClearIdentity(credentials.authcid, user.password or "")
            )
        except (AuthenticationError, ValueError):
            # The password has characters that SASLprep does not allow.
            right = False
        if user is None or not right:
            raise InvalidAuth()
        return memory.Identity(user.name, self, None, frozenset())

    async def authorize(self, authenticated: IdentityInterface, authzid: str) -> memory.Identity:
        return await super().authorize(authenticated, authzid.lower())


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
