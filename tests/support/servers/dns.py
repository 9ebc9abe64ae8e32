"""A name server on loopback that answers with the given records, and with no record for other
names.
"""

import contextlib
import socket
import threading
from typing import Self

import dns.flags
import dns.message
import dns.resolver
import dns.rrset


class NameServer:
    """A name server with `records`, lines of a zone by name and kind. Inside the block the
    process's resolver uses it.
    """

    def __init__(self) -> None:
        self.records: dict[tuple[str, str], list[str]] = {}
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def mail_of(self, domain: str, *, host: str, imap: int, smtp: int) -> None:
        """Set these servers as the mail servers of a domain (RFC 6186)."""
        self.records[f"_imaps._tcp.{domain}.", "SRV"] = [f"0 1 {imap} {host}."]
        self.records[f"_submissions._tcp.{domain}.", "SRV"] = [f"0 1 {smtp} {host}."]

    def __enter__(self) -> Self:
        self._before = dns.resolver.default_resolver
        resolver = dns.resolver.Resolver(configure=False)
        resolver.nameservers, resolver.port = ["127.0.0.1"], self._socket.getsockname()[1]
        dns.resolver.default_resolver = resolver
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        dns.resolver.default_resolver = self._before
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                wire, asker = self._socket.recvfrom(2048)
                if not wire:  # the end of the block shut the socket down
                    return
                query = dns.message.from_wire(wire)
                answer = dns.message.make_response(query)
                answer.flags |= dns.flags.AA
                question = query.question[0]
                found = self.records.get((str(question.name), question.rdtype.name), [])
                if found:
                    answer.answer.append(
                        dns.rrset.from_text(question.name, 60, "IN", question.rdtype, *found)
                    )
                self._socket.sendto(answer.to_wire(), asker)
