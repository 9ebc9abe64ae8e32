"""The page of the results.

python -m tests.interop > docs/dev/interop.md
"""

from collections.abc import Iterator, Mapping

from tests.interop import matrix, sending
from tests.interop.matrix import Operation

# Results other than "ok", by server and operation, each with its reason.
REMARKS: dict[tuple[str, str], str] = {}
HEAD = """# Interoperability

Each line is an operation, from a program's call over REST to the folders of an IMAP server, and each
column a server. `make test-all PART=matrices` runs all of them (`tests/interop/`). A cell other than
*ok* names its reason. The contract of providers (`tests/contract/`) runs on the same servers, and on
folders with German, Chinese and French names. This page is written by `python -m tests.interop`.
"""
MIDDLE = """
Known differences: Cyrus stores `X` for each raw 8-bit byte in a header. Courier refuses to add a message
to a folder that is open for reading only, so mailhub closes it first.

## Servers that send

Here a person approves each mail, mailhub hands it to the server, and the server relays it to a sink that
keeps every byte. Both servers take mail over STARTTLS after a sign-in only.
"""
TAIL = """
mailhub sends 7-bit mails with short lines, so it needs neither 8BITMIME nor SMTPUTF8. It waits for each
answer, so a server may offer PIPELINING or not. Postfix refuses a sender only when it is given a
recipient (`smtpd_delay_reject`); mailhub knows such an answer by its code. The sent bytes are those of the
copy in Sent, its `Date` included.

## Browsers

Every page is tested in Chromium. In Firefox ESR (153), `make test-all PART=browser` lets a person sign in,
approve and edit by keyboard, and looks for errors of scripts and for pages that are wider than a phone.
"""


def render() -> str:
    """Return the page."""
    parts = [
        HEAD,
        *_table(matrix.SERVERS, matrix.OPERATIONS),
        MIDDLE,
        *_table(sending.SERVERS, sending.OPERATIONS),
        TAIL,
    ]
    return "\n".join(parts)


def _table(servers: Mapping[str, str], operations: Mapping[str, Operation]) -> Iterator[str]:
    yield from (f"- `{name}`: {words}" for name, words in servers.items())
    yield ""
    yield "| operation | " + " | ".join(servers) + " |"
    yield "| --- |" + " --- |" * len(servers)
    for name, operation in operations.items():
        cells = [REMARKS.get((server, name), "ok") for server in servers]
        yield f"| {operation.title} | " + " | ".join(cells) + " |"
