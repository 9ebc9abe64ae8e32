"""Addresses and header texts that callers may give: one bare addr-spec, no control characters."""

import re
import unicodedata

from email_validator import EmailNotValidError, validate_email

from accounts.infra.idn import BadValue, check_local_part

ENCODED_WORD = re.compile(r"=\?[^?\s]*\?[bBqQ]\?[^?]*\?=")
WORD_BYTES = 45  # of UTF-8 that fit into one encoded word (RFC 2047)
NAME_CHARACTERS = 100
MOST_DOTS = 20  # of an address: each one takes the parsers time, and no real one has as many
# An address in a name deceives, and the others end a name or an address in a header.
NOT_IN_NAMES = re.compile(r'[@<>"\\:;\[\]\n\ufffd]')
# Bidirectional controls make an address or a file name look like another one.
BIDI = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def bare_address(value: str) -> str:
    """Return the address with its domain in ASCII (IDNA), as in envelope and header; else raise
    ValueError.

    Groups, comments, display names, quoted local parts, literals, routes, pipes and options are
    refused. They can make an address look like another one, which deceives a person.
    """
    if BIDI.search(value) or value.count(".") > MOST_DOTS:
        raise BadValue("is not a plain e-mail address")
    if value.endswith(">"):
        raise BadValue(
            "must be an address, such as name@company.example, or Mira <name@company.example>"
        )
    check_local_part(value.rpartition("@")[0])
    try:
        found = validate_email(value, check_deliverability=False, allow_smtputf8=False)
    except EmailNotValidError:
        raise BadValue("is not a plain e-mail address, such as name@company.example") from None
    assert found.ascii_email, "without SMTPUTF8 there is always an ASCII form"
    return found.ascii_email


def named_address(value: str) -> str:
    """Return the address, or `Name <address>` with exactly one plain name; else raise ValueError.

    A name with an @ is refused: it would be read as the address.
    """
    begin, opened, rest = value.strip().rpartition("<")
    if not opened or not rest.endswith(">"):
        return bare_address(value)
    address = bare_address(rest[:-1].strip())
    name = begin.strip()
    if len(name) > 1 and name[0] == name[-1] and name[0] in "\"'":
        name = name[1:-1].strip()
    if len(name) > NAME_CHARACTERS or NOT_IN_NAMES.search(name):
        raise BadValue(
            'must have a plain name before the address, such as "Mira <name@company.example>"'
        )
    for character in header_text(name):
        if unicodedata.category(character) in ("Cf", "Co", "Cn"):
            raise ValueError(f"must not hold the character U+{ord(character):04X}")
    return f"{' '.join(name.split())} <{address}>" if name else address


def split_named(value: str) -> tuple[str, str]:
    """Return the name, which may be empty, and the address of what `named_address` returned."""
    name, _, address = value.removesuffix(">").rpartition(" <")
    return name, address


def domain_of(address: str) -> str:
    return address.rpartition("@")[2].lower()


def header_text(value: str) -> str:
    """Return the text if a header may hold it: no control or line characters, no encoded words.

    Raises ValueError otherwise. Python before 3.11.10 turns an encoded newline into a new header
    (CVE-2024-6923).
    """
    for character in value:
        if unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp"):
            raise ValueError(f"must not hold the character U+{ord(character):04X}")
    if value != value.strip():
        raise BadValue("must not begin or end with white space")
    if ENCODED_WORD.search(value):
        raise BadValue("must not hold encoded words (=?…?=)")
    return value


def display_name(value: str) -> str:
    """Return the name that somebody else gave to an address, if a header may repeat it; else an empty
    text.

    A name that looks like an address, or has invisible characters, would deceive its reader. One that
    needs several encoded words is read with a gap between them by some programs.
    """
    name = " ".join(value.split())
    invisible = any(unicodedata.category(character) in ("Cf", "Co", "Cn") for character in name)
    if invisible or "@" in name or "\N{REPLACEMENT CHARACTER}" in name:
        return ""
    if len(name.encode("utf-8", "replace")) > (200 if name.isascii() else WORD_BYTES):
        return ""
    try:
        return header_text(name)
    except ValueError:
        return ""


def body_text(value: str) -> str:
    """Return a body with line ends as \\n; raise ValueError for NUL and lone surrogates."""
    if "\0" in value or any(unicodedata.category(c) == "Cs" for c in value):
        raise BadValue("must not hold NUL or unpaired surrogates")
    return value.replace("\r\n", "\n").replace("\r", "\n")


def file_name(value: str) -> str:
    """Return a plain file name; raise ValueError for anything else.

    Bidirectional controls are refused: `invoice<U+202E>fdp.exe` looks like a PDF.
    """
    if BIDI.search(value) or "/" in value or "\\" in value:
        raise BadValue("must be a plain file name")
    return header_text(value)
