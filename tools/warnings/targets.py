"""Warnings about links and pictures: targets, automatic loading, and data in their addresses.

Addresses are read as browsers read them (WHATWG), not as they look.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import unquote

from ada_url import URL

from accounts.infra.texts import Translatable, join, ntranslatable, translatable
from tools.mail.html.clean import normalize
from tools.mail.html.parser import HtmlParser
from tools.mail.message.compose import OutgoingMessage
from tools.mail.text.characters import without_invisible
from tools.mail.text.owners import is_open
from tools.warnings.checks import NAMED, Found, and_more, check
from tools.warnings.context import HTML_CHARACTERS, Context, own_words

# Names of hosts that only count clicks; the page behind them has the same owner.
COUNTING = frozenset(
    "www click clicks link links track tracking trk go email e t url news newsletter".split()
)
MUCH_CARRIED = 64  # the name of an ordinary picture is shorter
LONG_QUERY = 256  # campaign marks and shared documents are shorter; exfiltrated data is not
LONG_ADDRESS = 1_000  # of the whole address: names of folders and documents are shorter
BASE = "https://mail.invalid/"  # a mail has no address of its own, and no link may lead there
LINK = re.compile(r"https?://[^\s<>\"'）】」，。]{1,4000}", re.IGNORECASE)
EDGES = "\"'“”‘’«»<>()[]{}【】「」，。,;!?:…*_"
# A host as people write it: labels and a last one of letters, with an optional path.
WRITTEN_HOST = re.compile(
    r"(?:(?P<scheme>[a-z][a-z0-9+]{1,9})://)?(?:[^\s/?#\\@]{1,200}+@)?(?P<host>(?:[^\s/\\@:.?#]{1,63}+\.){1,9}"
    r"(?P<last>[^\W\d_]{2,24}|xn--[a-z0-9-]{1,59}))\.?(?::\d{1,5})?(?P<path>[/?#\\].*)?",
    re.IGNORECASE | re.DOTALL,
)
ADDRESS = re.compile(r"[^\s@<>()]{1,64}@(?P<host>[^\s@/<>()]{1,255}\.[^\W\d_]{2,24})")
# Browsers read it as a dot; in Chinese it ends a sentence.
FULL_STOP = re.compile(r"(?<=[A-Za-z0-9])[。｡](?=[A-Za-z0-9])")
DIGITS = re.compile(r"\d")
A_NUMBER = re.compile(r"\+?[\d\s()./-]{7,30}")
EXTENSION = re.compile(r"[,;]")  # what follows is dialled after the connection
FILE_ENDINGS = frozenset(
    """
    pdf doc docx docm dotx xls xlsx xlsm xlsb ppt pptx pptm odt ods odp rtf txt csv tsv json xml yaml yml html htm
    md py js ts css sql log net png jpg jpeg gif svg webp heic tif tiff bmp psd indd dwg dxf step stl mp3 mp4 mov wav
    zip rar gz tgz ics vcf eml msg epub
    """.split()
)
WEB_ENDINGS = frozenset(
    "com org net io de uk eu example info biz co fr it nl ch at cn jp us".split()
)


@dataclass(frozen=True, kw_only=True)
class Link:
    text: str
    target: str


@check(
    translatable("A link leads elsewhere."),
    translatable("link leads elsewhere"),
    severity="risk",
    of_text=True,
)
def link_mismatch(message: OutgoingMessage, context: Context) -> str | None:
    """Warn if the text of a link shows another host, address or telephone number than the one it
    leads to, read as browsers read it.
    """
    for link in _links(_judged_html(message)):
        leads = _leads_to(link.target)
        wrong = next(
            (
                shown
                for shown in _find_shown_hosts(link.text)
                if leads and not _is_same_house(shown, leads)
            ),
            None,
        )
        if wrong:
            return translatable(
                "It shows %(shown)s, but leads to %(targets)s.",
                shown=wrong,
                targets=", ".join(sorted(leads)),
            )
    return None


def hosts_of_links(message: OutgoingMessage, context: Context) -> Iterator[str]:
    """Yield the hosts of all links that were written for this message."""
    links = (link.target for link in _links(message.request.content.proposed_html))
    for target in (*links, *LINK.findall(own_words(message, context))):
        url = parse_target(target)
        if url is not None and url.protocol in ("http:", "https:"):
            yield url.hostname


@check(translatable("A link carries a lot of data."), translatable("long link"), of_text=True)
def long_query(message: OutgoingMessage, context: Context) -> str | None:
    """Warn if a link or picture carries 256 or more characters of data, or its address has 1,000."""
    content = message.request.content
    linked = [link.target for link in _links(content.proposed_html)]
    for target in (
        *linked,
        *_pictures(content.proposed_html),
        *LINK.findall(own_words(message, context)),
    ):
        url = parse_target(target)
        if url is None or url.protocol not in ("http:", "https:"):
            continue
        data = len(url.search) + len(url.hash) + len(url.username) + len(url.password)
        if data >= LONG_QUERY or len(url.href) >= LONG_ADDRESS:
            return translatable(
                "The address of a link or picture at %(host)s contains %(count)s characters of data.",
                host=url.hostname,
                count=max(data, count_carried(url)),
            )
    return None


@check(
    translatable("It loads pictures when it is read."),
    translatable("remote content"),
    severity="risk",
    of_text=True,
)
def remote_content(message: OutgoingMessage, context: Context) -> Found | None:
    """Warn if pictures are loaded from elsewhere when the mail is read; the warning names the
    hosts, and how many characters the addresses can carry in path, query, host and user name.
    Pictures of a forwarded mail only make it a notice; those in the quote of an answer return to
    their author and are not named.
    """
    content = message.request.content
    every = _remote_pictures(content.html or "")
    proposed = {url.href for url in _remote_pictures(content.proposed_html)}
    own = [url for url in every if url.href in proposed] if content.has_original else every
    # Those of an answered mail return to its author, who knows what they tell.
    if not every or not (own or message.request.kind == "forward"):
        return None
    return Found(
        text=_describe_pictures(own) if own else _describe_pictures(every, forwarded=True),
        severity="risk" if own else "notice",
    )


def _describe_pictures(addresses: list[URL], *, forwarded: bool = False) -> Translatable:
    hosts = sorted({url.hostname for url in addresses})
    names = ", ".join(hosts[:NAMED])
    if forwarded:
        loaded = ntranslatable(
            "%(count)s picture of the forwarded mail comes from %(hosts)s.",
            "%(count)s pictures of the forwarded mail come from %(hosts)s.",
            len(addresses),
            hosts=names,
        )
    else:
        loaded = ntranslatable(
            "%(count)s picture comes from %(hosts)s.",
            "%(count)s pictures come from %(hosts)s.",
            len(addresses),
            hosts=names,
        )
    told = translatable("These servers learn when and where the mail is read.")
    data = sum(count_carried(url) for url in addresses)
    carried = (
        translatable("The addresses carry up to %(data)s characters of data.", data=data)
        if data >= MUCH_CARRIED
        else ""
    )
    return join(loaded, and_more(len(hosts) - NAMED), told, carried)


def _remote_pictures(html: str) -> list[URL]:
    return [url for source in _pictures(html) if (url := remote(source))]


def parse_target(target: str) -> URL | None:
    """Return the address as a browser understands it; None if no browser would follow it."""
    for base in (None, BASE):
        try:
            return URL(target, base=base)
        except ValueError:
            continue
    return None


def remote(source: str) -> URL | None:
    """Return the address of a picture if it is loaded from a server."""
    url = parse_target(source)
    return (
        url
        if url is not None
        and url.protocol in ("http:", "https:", "ftp:")
        and url.host != "mail.invalid"
        else None
    )


def count_carried(url: URL) -> int:
    """Return how many characters the address can carry: all except the scheme and the last two
    labels.
    """
    labels = url.hostname.split(".")
    host = len(".".join(labels[:-2]))
    return (
        host
        + len(url.username)
        + len(url.password)
        + len(url.port)
        + len(url.pathname.strip("/"))
        + len(url.search.lstrip("?"))
        + len(url.hash.lstrip("#"))
    )


def _judged_html(message: OutgoingMessage) -> str:
    """Return the HTML of the proposer. The quote of an answer is left out, because its author gets
    it back.
    """
    content = message.request.content
    return content.proposed_html + (content.html or "" if message.request.kind == "forward" else "")


class _Reader(HtmlParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.links: list[Link] = []
        self.pictures: list[str] = []
        self._target: str | None = None
        self._text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag in ("a", "area"):
            self._target, self._text = given.get("href", ""), []
        elif tag == "img":
            self.pictures.append(given.get("src", ""))
            self._text.append(given.get("alt", ""))
        elif tag in ("br", "p", "div", "td", "li"):
            self._text.append(" ")

    def handle_data(self, data: str) -> None:
        if self._target is not None:
            self._text.append(data)

    def handle_endtag(self, tag: str) -> None:
        if tag == "a" and self._target is not None:
            self.links.append(Link(text="".join(self._text), target=self._target))
            self._target = None


@lru_cache(maxsize=4)
def _read(html: str) -> _Reader:
    reader = _Reader()
    if html.strip():
        reader.feed(normalize(html[:HTML_CHARACTERS]))
        reader.close()
    return reader


def _links(html: str) -> list[Link]:
    return _read(html).links


def _pictures(html: str) -> list[str]:
    return _read(html).pictures


def _find_shown_hosts(text: str) -> Iterator[str]:
    """Yield the hosts that the text of a link shows, in ASCII.

    An address yields its domain, a telephone number its digits.
    """
    text = FULL_STOP.sub(".", unicodedata.normalize("NFKC", without_invisible(text))).strip()
    if A_NUMBER.fullmatch(text):
        yield _number(text)
        return
    words = text.split()
    for word in words[:200]:
        word = word.strip(EDGES).rstrip(".")
        address, host = ADDRESS.fullmatch(word), WRITTEN_HOST.fullmatch(word)
        if address:
            yield _in_ascii(address["host"])
        elif host and _is_meant_as_host(host, word, only=len(words) == 1):
            yield _in_ascii(host["host"])


def _is_meant_as_host(found: re.Match[str], word: str, *, only: bool) -> bool:
    if found["scheme"] or found["path"] or word.lower().startswith("www."):
        return True
    last = found["last"]
    if last.lower() in FILE_ENDINGS - (WEB_ENDINGS if only else frozenset()):
        return False
    names = found["host"].split(".")[:-1]
    if last.lower() not in WEB_ENDINGS and _is_short(names, last):
        return False
    # "in time.Please": a blank is missing between two sentences.
    return only or last.lower() in WEB_ENDINGS or not last[0].isupper() or last.isupper()


def _is_short(names: Sequence[str], last: str) -> bool:
    """Return True for `3.Quartal` and `Dr.Weber`: a number or an abbreviation before a noun."""
    is_noun = last[0].isupper() and not last.isupper()
    return is_noun and all(name.isdigit() or len(name) <= 2 for name in names)


def _leads_to(target: str) -> frozenset[str]:
    """Return the targets of a link: hosts in ASCII, domains of addresses, digits of a telephone
    number.
    """
    url = parse_target(target)
    if url is None:
        return frozenset()
    if url.protocol in ("http:", "https:", "ftp:"):
        return (
            frozenset() if url.hostname == "mail.invalid" else frozenset({url.hostname.rstrip(".")})
        )
    if url.protocol == "tel:":
        return frozenset({_number(EXTENSION.split(unquote(url.pathname))[0])})
    if url.protocol == "mailto:":
        return frozenset(_domains([unquote(url.pathname), *_find_addresses(url.search)]))
    return frozenset()


def _find_addresses(query: str) -> Iterator[str]:
    for part in query.lstrip("?").split("&"):
        name, _, value = part.partition("=")
        if unquote(name).lower() in ("to", "cc", "bcc"):
            yield unquote(value)


def _domains(lists: Iterable[str]) -> Iterator[str]:
    for addresses in lists:
        for address in addresses.split(","):
            if "@" in address:
                yield _in_ascii(address.rpartition("@")[2].strip(" >"))


def _number(text: str) -> str:
    return "".join(DIGITS.findall(text))


def _in_ascii(host: str) -> str:
    try:
        return URL(f"https://{host}/").hostname.rstrip(".")
    except ValueError:
        return host.lower().rstrip(".")


def _is_same_house(shown: str, leads: frozenset[str]) -> bool:
    """Return True if each target of a link is the shown host, a part of it, or a parent of it."""
    if shown.isdigit():
        return all(
            not each.isdigit() or each.endswith(shown.lstrip("0")[-7:] or shown) for each in leads
        )
    shown = shown.removeprefix("www.")
    return all(
        shown == each
        or (shown.endswith("." + each) and not is_open(each))
        or (each.endswith("." + shown) and not is_open(shown))
        or _is_click_counter(each, shown)
        for each in (host.removeprefix("www.") for host in leads)
    )


def _is_click_counter(target: str, shown: str) -> bool:
    """Return True for `click.northwind.example` if the link shows `shop.northwind.example`."""
    name, _, parent = target.partition(".")
    return name in COUNTING and shown.partition(".")[2] == parent and not is_open(parent)
