"""The verdicts about the sender of a mail that the server of its mailbox wrote into it. Pure.

Everybody can write a header Authentication-Results (RFC 8601) into a mail. Only the topmost one
that bears a name of the own servers counts, and only if no foreign server took the mail after it:
servers add their headers at the top, so everything below the line of a foreign one is foreign too.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import Message

from tools.mail.message import lenient
from tools.mail.text.owners import is_open, owned_part_of

METHODS = ("spf", "dkim", "dmarc")
RESULT = re.compile(r" ?(spf|dkim|dmarc) ?(?:/ ?1 ?)?= ?([a-z]{1,20})(?![a-z])")
# `bestguesspass` is Microsoft's: the domain has no DMARC record, and would pass with a usual one.
# https://learn.microsoft.com/defender-office-365/message-headers-eop-mdo
RESULTS = frozenset(
    "pass fail softfail neutral none policy temperror permerror bestguesspass".split()
)
TAKEN_BY = re.compile(r"(?:^| )by ([^ ;]{1,255})")
MOST_CHARACTERS = 32_000  # of one header


@dataclass(frozen=True, kw_only=True)
class OwnServers:
    """The servers that take mail for a mailbox: all names in these domains.

    `is_nameless`: they write verdicts without a name, as Exchange Online does.
    """

    domains: frozenset[str]
    is_nameless: bool = False

    def has(self, name: str) -> bool:
        return any(name == each or name.endswith(f".{each}") for each in self.domains)


GMAIL = OwnServers(domains=frozenset({"google.com"}))
EXCHANGE = OwnServers(
    domains=frozenset({"outlook.com", "office365.com", "exchangelabs.com"}), is_nameless=True
)
# Mailboxes of these providers that are read over IMAP.
HOSTED = {
    "gmail.com": GMAIL,
    "googlemail.com": GMAIL,
    "outlook.com": EXCHANGE,
    "office365.com": EXCHANGE,
}


def servers_of(host: str, domain: str) -> OwnServers:
    """Return the servers of a mailbox by the name of its IMAP server and the domain of its address:
    all names that the owners of these two have.
    """
    parts = (_part_of(host), _part_of(domain))
    return HOSTED.get(parts[0]) or OwnServers(domains=frozenset(parts) - {""})


def _part_of(name: str) -> str:
    """Return the part of a name that one owner has; empty for an IP address and a bare name."""
    name = name.lower().rstrip(".")
    if "." not in name or name.rpartition(".")[2].isdecimal() or is_open(name):
        return ""
    return owned_part_of(name)


def read_verdicts(block: Message, own: OwnServers) -> dict[str, str]:
    """Return the result of `spf`, `dkim` and `dmarc`; what is not known is left out."""
    for name, value in block.items():
        match name.lower():
            case "received" if not _is_inside(value, own):
                return {}
            case "authentication-results":
                verdicts = _parse(_plain(value), own)
                if verdicts is not None:
                    return verdicts
    return {}


def is_refuted(verdicts: Mapping[str, str]) -> bool:
    """Return True if the mail fails DMARC, or if it fails SPF and DKIM and DMARC has no verdict."""
    match verdicts.get("dmarc"):
        case "fail":
            return True
        case "pass" | "bestguesspass":
            return False
    return verdicts.get("spf") in ("fail", "softfail") and verdicts.get("dkim") == "fail"


def spell_verdicts(verdicts: Mapping[str, str]) -> str:
    return ", ".join(f"{method.upper()}: {result}" for method, result in verdicts.items())


def _is_inside(value: object, own: OwnServers) -> bool:
    """Return True if an own server wrote this Received line, or one without a public name.

    The line repeats the name that the client gave itself, which may hold anything.
    """
    line = " ".join(lenient.raw_text(value)[:MOST_CHARACTERS].lower().split())
    if any(own.has(name.rstrip(".")) for name in TAKEN_BY.findall(line)):
        return True
    found = TAKEN_BY.search(_plain(value))
    return found is not None and "." not in found[1].rstrip(".")


def _parse(line: str, own: OwnServers) -> dict[str, str] | None:
    """Return the verdicts of a header, or None if a foreign server wrote it.

    One valid signature of several is enough. Of two other verdicts the first one counts.
    """
    first, *others = line.split(";")
    if "=" in first:
        if not own.is_nameless:
            return None
        others.insert(0, first)
    elif not own.has(first.strip().partition(" ")[0].rstrip(".")):
        return None
    found: dict[str, str] = {}
    for each in others:
        if (said := RESULT.match(each)) and said[2] in RESULTS:
            method, result = said.groups()
            found.setdefault(method, result)
            if method == "dkim" and result == "pass":
                found[method] = result
    return {method: found[method] for method in METHODS if method in found}


def _plain(value: object) -> str:
    """Return a header in lower case on one line, without comments and quoted texts: a sender can
    choose what is in them.
    """
    kept: list[str] = []
    depth, is_quoted, is_escaped = 0, False, False
    for character in lenient.raw_text(value)[:MOST_CHARACTERS]:
        if is_escaped:
            is_escaped = False
        elif character == "\\" and (is_quoted or depth):
            is_escaped = True
        elif character == '"' and not depth:
            is_quoted = not is_quoted
        elif is_quoted:
            continue
        elif character == "(":
            depth += 1
            kept.append(" ")
        elif character == ")" and depth:
            depth -= 1
        elif not depth:
            kept.append(character)
    return " ".join("".join(kept).lower().split())
