"""Canonical domains and addresses: UTS 46 and IDNA 2008, as browsers and mail servers do it."""

import re

import idna

# Old mail servers read these characters as a route, a quotation, a pipe or a file, command lines read
# a hyphen as an option, and some programs decode encoded words (=?…?=) in an address too.
_ROUTED = re.compile(r'^[-/|:.]|=\?|[!%|`"\\()<>\[\]:;,@\s\x00-\x1f\x7f]')


class BadValue(ValueError):
    """A refused value. The text follows the name of the field, and pages translate it."""


def ascii_domain(domain: str) -> str:
    """Return the domain in lower case and in ASCII (A-labels), without a dot at its end.

    Raise ValueError if it has no such form. ASCII stays as it is, because host names in links may
    hold an underscore.
    """
    try:
        written = domain if domain.isascii() else idna.encode(domain, uts46=True).decode()
    except UnicodeError:  # the base of IDNAError
        raise BadValue("is not a domain name") from None
    return written.lower().removesuffix(".")


def plain_address(address: str) -> str:
    """Return the address with its domain in ASCII; raise ValueError if mail servers could read it
    as another address.
    """
    local, at, domain = address.strip().rpartition("@")
    if not at or not local or not domain:
        raise BadValue("is not a plain e-mail address")
    check_local_part(local)
    return f"{local}@{ascii_domain(domain)}"


def check_local_part(local: str) -> None:
    """Raise ValueError for a local part that is a route (`b.example!a`, `a%b`), quotation, pipe,
    file, option or encoded word.
    """
    if _ROUTED.search(local) or local.endswith(".") or ".." in local:
        raise BadValue("is not a plain e-mail address")


def comparable(address: str) -> str:
    """Return an address or domain for comparisons; without an ASCII form only in lower case."""
    local, at, domain = address.rpartition("@")
    try:
        return f"{local.lower()}{at}{ascii_domain(domain)}"
    except ValueError:
        return address.lower()
