"""Hostile mail servers: they are slow, silent, or send too much, and never end a conversation by
themselves.
"""

import contextlib
import socket
import threading
from collections.abc import Mapping
from typing import Literal

from tests.support.servers.listening import Listening

Harm = Literal[
    "drip", "silent", "endless_lines", "endless_line", "literal", "literal_in_pieces", "digits",
    "stalled_literal", "words",
]  # fmt: skip
PIECE = 65536


class Hostile(Listening):
    """A server that harms each client from its first connection on, or once it has reached a step.

    drip: a byte now and then of an answer that never ends. silent: nothing at all. endless_lines,
    endless_line: as much as the client takes. literal, literal_in_pieces, digits (IMAP): literals
    of 600 MB, of many small pieces, of a size that is no number. words: long lines of short words.
    """

    def __init__(self, harm: Harm, *, every: float = 0.05) -> None:
        super().__init__()
        self.harm = harm
        self.every = every
        self.sent = 0
        self._ended = threading.Event()

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        super().__exit__(*error)  # type: ignore[arg-type]

    def do_harm(self, sock: socket.socket, *, line: bytes, before: bytes = b"") -> None:
        """Harm this client until one side ends. `line` is a line after which the answer goes on."""
        self._say(sock, before)
        match self.harm:
            case "drip":
                while not self._ended.wait(self.every):
                    self._say(sock, line[self.sent % len(line) :][:1])
            case "silent":
                with contextlib.suppress(OSError):
                    while not self._ended.is_set() and sock.recv(PIECE):
                        pass
            case "endless_lines":
                while True:
                    self._say(sock, line * (PIECE // len(line)))
            case "endless_line":
                while True:
                    self._say(sock, line[:4] + b"x" * PIECE)
            case "literal":
                self._say(sock, b"* 1 FETCH (BODY[] {629145600}\r\n")
                while True:
                    self._say(sock, b"x" * PIECE)
            case "literal_in_pieces":
                while True:
                    self._say(sock, b"* 1 FETCH (BODY[] {50000}\r\n" + b"x" * 50000 + b")\r\n")
            case "stalled_literal":
                self._say(sock, b"* 1 FETCH (BODY[] {40000000}\r\n")
                self._ended.wait()
            case "words":
                while True:
                    self._say(sock, b"* LIST (" + b"\\a " * 300_000 + b') "/" x\r\n')
            case "digits":
                self._say(sock, b"* 1 FETCH (BODY[] {" + b"9" * 5000 + b"}\r\n")
                self._ended.wait()

    def _say(self, sock: socket.socket, content: bytes) -> None:
        sock.sendall(content)
        self.sent += len(content)


class HostileSmtp(Hostile):
    """An SMTP server that does harm at this command, `greeting` or `dot`; otherwise it accepts."""

    def __init__(self, harm: Harm, *, at: str = "greeting", every: float = 0.05) -> None:
        super().__init__(harm, every=every)
        self.at = at
        self.contents = 0

    def serve(self, sock: socket.socket) -> None:
        self._meet(sock, "greeting", b"220 hostile.example ESMTP\r\n")
        with sock.makefile("rb") as lines:
            for line in lines:
                verb = line.decode("latin-1").split()[0].upper() if line.strip() else ""
                if verb == "DATA":
                    self._meet(sock, "data", b"354 go ahead\r\n")
                    while (content := lines.readline()) != b".\r\n":
                        if not content:
                            return
                    self.contents += 1
                    self._meet(sock, "dot", b"250 OK\r\n")
                elif verb == "EHLO":
                    self._meet(sock, "ehlo", b"250-hostile.example\r\n250 AUTH PLAIN\r\n")
                else:
                    self._meet(
                        sock, verb.lower(), b"235 OK\r\n" if verb == "AUTH" else b"250 OK\r\n"
                    )

    def _meet(self, sock: socket.socket, point: str, usual: bytes) -> None:
        if point == self.at:
            self.do_harm(sock, line=usual[:3] + b"-go on\r\n")
        sock.sendall(usual)


class HostileImap(Hostile):
    """An IMAP server that does harm at this command, or at the greeting; otherwise it answers as an
    empty mailbox, or with the `odd` answers to some commands.
    """

    def __init__(
        self,
        harm: Harm = "silent",
        *,
        at: str = "greeting",
        every: float = 0.05,
        odd: Mapping[bytes, bytes] | None = None,
    ) -> None:
        super().__init__(harm, every=every)
        self.at = at
        self.odd = odd or {}

    def serve(self, sock: socket.socket) -> None:
        self._meet(sock, "greeting", b"* OK [CAPABILITY IMAP4rev1] ready\r\n")
        with sock.makefile("rb") as lines:
            for line in lines:
                tag, _, rest = line.strip().partition(b" ")
                verb = rest.removeprefix(b"UID ").split(b" ")[0].upper()
                untagged = {
                    b"CAPABILITY": b"* CAPABILITY IMAP4rev1\r\n",
                    b"EXAMINE": b"* 3 EXISTS\r\n* OK [UIDVALIDITY 1] x\r\n* OK [UIDNEXT 4] x\r\n",
                    b"SEARCH": b"* SEARCH 1 2 3\r\n",
                    b"LIST": b'* LIST (\\Sent) "/" "Sent"\r\n',
                }.get(verb, b"")
                untagged = self.odd.get(verb, untagged)
                self._meet(sock, verb.decode("latin-1").lower(), untagged + tag + b" OK done\r\n")

    def _meet(self, sock: socket.socket, point: str, usual: bytes) -> None:
        if point == self.at:
            self.do_harm(sock, line=b"* OK still here\r\n")
        sock.sendall(usual)
