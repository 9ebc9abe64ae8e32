"""The functions that read foreign bytes, each for an input of the fuzzer, and the cost of one call."""

import json
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from imapclient.response_parser import parse_fetch_response

from accounts.infra.problems import Problem
from tests.support.servers.memory import MemoryProvider, MemoryServer
from tools.mail.html.nesting import TooDeep, TooLarge
from tools.mail.message import lenient, mime, reading
from tools.mail.message.markup import page_and_text
from tools.mail.message.page_text import HTML_CHARACTERS, READ_CHARACTERS, folded_text, page_text
from tools.mail.message.whole_text import read_whole
from tools.mail.text.decoding import text_of
from tools.mail.text.encoded_words import decode_words
from tools.providers.errors import Refused
from tools.providers.imap import structure
from tools.reading import compact

ADDRESS = "ada@lovelace.example"
ATTACHMENT_BYTES = 10 * 1024**2
FETCHED = 5
MEGABYTE = 1024**2
MOST_SECONDS = 2.0  # of processor time, for all calls of `read_mail`
TRIES = 3
MOST_MEMORY = 50 * MEGABYTE


def read_mail(source: bytes) -> None:
    """List and read a message with everything in it, as the tools do."""
    if not source:
        return
    server = MemoryServer()
    server.deliver(ADDRESS, source)
    provider = MemoryProvider(server, ADDRESS)
    (card,) = provider.list_messages(folder="inbox", unread=None, limit=1, page_token=None).cards
    message = provider.read_message(card.id, body=True)
    for each in message.attachments[:FETCHED]:
        with suppress(Refused):
            provider.fetch_attachment(card.id, each.id, limit=ATTACHMENT_BYTES)
        check_name(each.name)
    if message.text is None and message.html is not None:
        with suppress(TooDeep, TooLarge):
            folded_text(message.html[:READ_CHARACTERS], message.subject, message.to)
    # A page that is not small would be read in a limited process, where the fuzzer sees nothing.
    body = read_whole(message, in_time=False, quoted=False)
    row = compact.message(message, body, offset=0, max_chars=20_000)
    check_text(json.dumps(row, ensure_ascii=False))
    check_text(body.text, *(each.subject for each in message.inner))


def read_page(source: bytes) -> None:
    """Read a page in the charset that it names."""
    html = text_of(source, "", is_page=True)[:READ_CHARACTERS]
    with suppress(TooDeep, TooLarge):
        check_text(page_text(html).text, folded_text(html, "subject", (ADDRESS,)).text)


def show_page(source: bytes) -> None:
    """Clean a page for the review page and for an answer."""
    with suppress(TooDeep, TooLarge):
        page_and_text(text_of(source, "", is_page=True)[:HTML_CHARACTERS])


def read_structure(source: bytes) -> None:
    """Read the answer of an IMAP server that describes a message."""
    try:
        found = parse_fetch_response([b"1 (BODYSTRUCTURE " + source + b")"])[1][b"BODYSTRUCTURE"]
    except Exception:  # of the library: no such answer reaches mailhub
        return
    root, _ = structure.tree_of(found)
    reading.count_files(root)
    read = reading.read(mime.Tree(root=root, block=lenient.headers(b"")))
    check_text(*(each.name for each in read.attachments))


def read_header(source: bytes) -> None:
    """Read a block of headers."""
    block = lenient.headers(source, "windows-1251")
    for name in ("From", "To"):
        lenient.addresses(block, name)
    check_text(lenient.decode_text(block["Subject"]), decode_words(text_of(source, "")))
    lenient.references(block)
    lenient.date_of(block, None)


def check_name(name: str) -> None:
    """Fail if a file name is empty, too long or dangerous."""
    assert 0 < len(name) <= 120
    assert not {*name} & set("/\\\0\n\t\u202e")


def check_text(*texts: str) -> None:
    """Fail if a text holds characters that cannot be written, or control something."""
    for text in texts:
        text.encode()
        assert not {*text} & {"\0", "\x1b", "\r"}


TARGETS: dict[str, Callable[[bytes], None]] = {
    "mail": read_mail,
    "page": read_page,
    "shown": show_page,
    "structure": read_structure,
    "header": read_header,
}


@dataclass(frozen=True, kw_only=True)
class Cost:
    seconds: float
    memory: int  # bytes, above those in use before

    @property
    def is_too_high(self) -> bool:
        return self.seconds > MOST_SECONDS or self.memory > MOST_MEMORY


def measure(read: Callable[[bytes], None], source: bytes) -> Cost:
    """Return the cost of reading, the lowest of three if the first one is too high: other threads
    of the process count too.

    Raises what the function raises, except a documented refusal.
    """
    cost = _measure_once(read, source)
    if cost.is_too_high:
        again = [_measure_once(read, source) for _ in range(TRIES - 1)]
        cost = min([cost, *again], key=lambda each: (each.is_too_high, each.seconds))
    return cost


def _measure_once(read: Callable[[bytes], None], source: bytes) -> Cost:
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins again: `man 5 proc`
    before, _ = _read_memory()
    started = time.process_time()
    with suppress(Problem):
        read(source)
    return Cost(seconds=time.process_time() - started, memory=_read_memory()[1] - before)


def _read_memory() -> tuple[int, int]:
    """Return the bytes in use, and their peak."""
    status = Path("/proc/self/status").read_text()
    used, peak = (
        int(status.partition(f"{name}:")[2].split()[0]) * 1024 for name in ("VmRSS", "VmHWM")
    )
    return used, peak
