"""Warnings about what is written, seen or not: links, hidden text, secrets, orders to a machine, reversed text."""

import re
import unicodedata
from collections.abc import Iterator
from urllib.parse import SplitResult, unquote, urlsplit

import lxml.html
from lxml.etree import ParserError

from accounts.idn import ascii_domain
from approvals.types import PreviewWarning
from tools.compose import OutgoingMessage
from tools.reading import HTML_CHARACTERS, INVISIBLE, TAGS, visible
from tools.warnings import injections, secrets
from tools.warnings.context import JUDGED_CHARACTERS, Context, own_words

LONG_QUERY = 256  # campaign marks and shared documents stay below; what somebody wants carried out does not
LINK = re.compile(r"https?://[^\s<>\"'）】」，。]+", re.IGNORECASE)
# A host as people write it: labels and a last one of letters, with a path at most.
LOOKS_LIKE_A_HOST = re.compile(
    r"(?:https?://)?(?:[^\s/@:.]+\.)+(?P<last>[^\W\d_]{2,24}|xn--[a-z0-9-]+)(?::\d+)?(?:[/?#]\S*)?", re.IGNORECASE
)
SOFT_HYPHEN = "\u00ad"
MANY_SPACELESS = 3  # one or two come along when text is copied
FILE_ENDINGS = {
    "pdf",
    "doc",
    "docx",
    "xls",
    "xlsx",
    "ppt",
    "pptx",
    "txt",
    "csv",
    "zip",
    "png",
    "jpg",
    "html",
    "md",
    "py",
    "js",
}
OVERRIDES = "\u202d\u202e"
OPENING = {"\u202a": "\u202c", "\u202b": "\u202c", "\u2066": "\u2069", "\u2067": "\u2069", "\u2068": "\u2069"}


def link_mismatch(message: OutgoingMessage, context: Context) -> PreviewWarning | None:
    for text, target in _links(_judged_html(message)):
        shown, leads = _host_in(text), _host(target)
        if shown and leads and not _same_house(shown, leads) and shown not in unquote(urlsplit(target).query).lower():
            return PreviewWarning(
                code="link_mismatch",
                title="A link leads elsewhere.",
                text=f"It reads {shown} and leads to {leads}.",
                severity="risk",
            )
    return None


def long_query(message: OutgoingMessage, context: Context) -> PreviewWarning | None:
    targets = [target for _, target in _links(message.request.content.proposed_html, pictures=True)]
    for target in (*targets, *LINK.findall(own_words(message))):
        parts = _split(target)
        if parts is not None and len(parts.query) + len(parts.fragment) >= LONG_QUERY:
            return PreviewWarning(
                code="long_query",
                title="A link carries much along.",
                text=f"The address of a link or picture at {parts.hostname} holds"
                f" {len(parts.query) + len(parts.fragment)} characters of data.",
            )
    return None


def hidden_text(message: OutgoingMessage, context: Context) -> PreviewWarning | None:
    content = message.request.content
    unseen = any(visible(html)[1] for html in (content.proposed_html, content.html or "") if html)
    spelled = content.text[:JUDGED_CHARACTERS] + message.request.subject
    spaceless = len(INVISIBLE.findall(spelled.replace(SOFT_HYPHEN, "")))
    if not unseen and not TAGS.search(spelled) and spaceless < MANY_SPACELESS:
        return None
    return PreviewWarning(
        code="hidden_text", title="Hidden text.", text="Something is written that its reader would not see."
    )


def secret(message: OutgoingMessage, context: Context) -> PreviewWarning | None:
    request = message.request
    written = request.content.text[:JUDGED_CHARACTERS] if request.kind == "forward" else own_words(message)
    found = secrets.found_in(f"{request.subject}\n{written}")
    for attachment in request.attachments:
        if not found and len(attachment.content) <= JUDGED_CHARACTERS and b"\0" not in attachment.content:
            found = secrets.found_in(attachment.content.decode("utf-8", "replace"))
    if not found:
        return None
    return PreviewWarning(
        code="secret", title="This may be a secret.", text=f"It holds what looks like {found}.", severity="risk"
    )


def injection(message: OutgoingMessage, context: Context) -> PreviewWarning | None:
    if not injections.found_in(context.prompted_by[:JUDGED_CHARACTERS]):
        return None
    return PreviewWarning(
        code="injection",
        title="The mail that prompted this gives orders to machines.",
        text="Its text tries to tell an assistant what to do. Look whether this answer does it.",
        severity="risk",
    )


def bidi(message: OutgoingMessage, context: Context) -> PreviewWarning | None:
    """Text whose order on screen is not the order it is in. Marks and closed embeddings are ordinary in right-to-left
    text; overrides never are."""
    request = message.request
    names = [request.subject, request.from_name, *(attachment.name for attachment in request.attachments)]
    lines = [*names, *own_words(message).split("\n")]
    if not any(_turned(line) for line in lines):
        return None
    return PreviewWarning(
        code="bidi",
        title="Turned letters.",
        text="Invisible characters change the order in which a line is read.",
        severity="risk",
    )


def content_removed(message: OutgoingMessage, context: Context) -> PreviewWarning | None:
    if not message.request.content.content_removed:
        return None
    return PreviewWarning(
        code="content_removed",
        title="Parts were removed.",
        text="Scripts, forms, style sheets, comments or unsafe styles were taken out of the HTML. What you see leaves.",
    )


def _turned(line: str) -> bool:
    open_: list[str] = []
    for character in line:
        if character in OVERRIDES:
            return True
        if character in OPENING:
            open_.append(OPENING[character])
        elif character in OPENING.values() and (not open_ or open_.pop() != character):
            return True
    return bool(open_)


def _judged_html(message: OutgoingMessage) -> str:
    """What the proposer answers for: the quote of an answer goes back to where it came from."""
    content = message.request.content
    return content.proposed_html + (content.html or "" if message.request.kind == "forward" else "")


def _links(html: str, *, pictures: bool = False) -> Iterator[tuple[str, str]]:
    """The text and target of each link, and the sources of pictures where they are asked for."""
    try:
        root = lxml.html.fromstring(html[:HTML_CHARACTERS]) if html.strip() else None
    except (ParserError, ValueError):
        return
    if root is None:
        return
    for element in root.iter("a", "area"):
        yield "".join(map(str, element.itertext())).strip(), element.get("href") or ""
    if pictures:
        for element in root.iter("img"):
            yield "", element.get("src") or ""


def _host_in(text: str) -> str | None:
    """The host that the text of a link shows, when it shows one and nothing else."""
    found = LOOKS_LIKE_A_HOST.fullmatch(INVISIBLE.sub("", text).strip().rstrip("."))
    if found is None or (found["last"].lower() in FILE_ENDINGS and "://" not in text and "/" not in text):
        return None
    return _host(text.strip() if "://" in text else f"http://{text.strip()}")


def _host(target: str) -> str | None:
    parts = _split(target)
    host = parts.hostname if parts and parts.scheme in ("http", "https") else None
    return _in_ascii(host) if host else None


def _in_ascii(host: str) -> str:
    try:
        return ascii_domain(host)
    except ValueError:
        return unicodedata.normalize("NFKC", host.rstrip(".")).lower()


def _split(target: str) -> SplitResult | None:
    try:
        return urlsplit(target.strip())
    except ValueError:
        return None


def _same_house(shown: str, leads: str) -> bool:
    """Whether one is a part of the other, `www.` aside."""
    shown, leads = shown.removeprefix("www."), leads.removeprefix("www.")
    return shown == leads or shown.endswith("." + leads) or leads.endswith("." + shown)
