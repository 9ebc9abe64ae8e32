"""The headers at the beginning of a message, mended where programs break them. Pure, linear."""

import re

MARK = b"\xef\xbb\xbf"
END = re.compile(rb"\n\r?\n")
NAME = frozenset(range(0x21, 0x7F)) - {ord(":")}
# Only before one of these is a line without a colon taken for a mistake; otherwise the text begins.
USUAL = frozenset(
    b"from to cc date subject sender reply-to message-id in-reply-to references received"
    b" return-path mime-version".split()
)
USUAL_BEGINNINGS = (b"content-", b"list-", b"x-", b"arc-", b"dkim-", b"auto-", b"authentication-")
BLANKS = (b" ", b"\t")
MOST = 256 * 1024


def mend_head(source: bytes) -> bytes:
    """Return the message with headers that every parser reads to their end.

    A byte order mark before them, blanks between a name and its colon, and a line that is no header
    between two headers are removed.
    """
    source = source.removeprefix(MARK)
    if source.startswith((b"\n", b"\r\n")):
        return source
    end = END.search(source, 0, MOST)
    head = source[: end.start() + 1 if end else min(len(source), MOST)]
    lines = head.splitlines(keepends=True)
    mended, has_header, dropping = [], False, False
    for place, line in enumerate(lines):
        if line.startswith(BLANKS):
            if not dropping:
                mended.append(line)
            continue
        name = _name_of(line)
        dropping = not name and has_header and _is_usual(lines[place + 1 : place + 2])
        has_header = has_header or bool(name)
        if not dropping:
            mended.append(name + line[line.index(b":") :] if name else line)
    return b"".join(mended) + source[len(head) :]


def _name_of(line: bytes) -> bytes:
    """Return the name of the header in this line; empty if it has no header."""
    name, colon, _ = line.partition(b":")
    name = name.rstrip(b" \t")
    return name if colon and not set(name) - NAME else b""


def _is_usual(lines: list[bytes]) -> bool:
    name = _name_of(lines[0]).lower() if lines else b""
    return name in USUAL or name.startswith(USUAL_BEGINNINGS)
