"""The comparison of plain text and HTML of one message. Pure, linear in their length.

Mail programs show one of the two. Both leave, so a person must not approve one and send another.
"""

import re
import unicodedata

from approvals.core.types import Passage
from tools.mail.html.clean import attribute_values, text_of
from tools.mail.text.characters import without_invisible

# A word, a number with its separators, or a sign that changes an amount. Decoration such as "> "
# and "---" does not count.
WORD = re.compile(r"\d+(?:[.,:/]\d+)*|[^\W\d_]+|[%‰$€£¥₩₹¢]")
URL = re.compile(
    r"(?:https?://|mailto:|tel:|www\.)[^\s<>\"'\])]+|[^\s<>\"'()\[\]@:]{1,64}@[\w.-]{1,255}",
    re.IGNORECASE,
)
# Programs that turn HTML into text write a picture as [image: Logo], [cid:part1] or [Logo].
PICTURE = re.compile(r"\[(?:image:\s{0,9}|cid:)?([^\[\]]{1,200})\]")
MARKED_CHARACTERS = 40_000  # of a text; the page marks no more than this


def differ(text: str, html: str) -> bool:
    """Return True if the words of the plain text differ from those of the HTML, or their order
    does.

    White space, quote marks, decoration, upper and lower case, and the addresses of links are not
    compared.
    """
    ours, theirs = _words_of_both(text, html)
    return ours != theirs


def passages(text: str, html: str) -> tuple[Passage, ...]:
    """Return the plain text in passages, marked where the HTML lacks their words; empty if both are
    the same.
    """
    ours, theirs = _words_of_both(text, html)
    if ours == theirs:
        return ()
    known = set(theirs) | set(_words(" ".join(attribute_values(html))))
    only_here: list[tuple[int, int]] = []
    for match in WORD.finditer(text, 0, MARKED_CHARACTERS):
        if all(word in known for word in _words(match[0])):
            continue
        if only_here and not text[only_here[-1][1] : match.start()].strip():
            only_here[-1] = (only_here[-1][0], match.end())
        else:
            only_here.append(match.span())
    found: list[Passage] = []
    reached = 0
    for start, end in only_here:
        found += [Passage(text=text[reached:start]), Passage(text=text[start:end], only_here=True)]
        reached = end
    return tuple(each for each in (*found, Passage(text=text[reached:])) if each.text)


def _words_of_both(text: str, html: str) -> tuple[list[str], list[str]]:
    addresses = {_address(value) for value in attribute_values(html)}
    names = {" ".join(_words(value)) for value in attribute_values(html)}
    return _words(_remove_repeated(text, addresses, names)), _words(
        _remove_repeated(text_of(html), addresses, names)
    )


def _remove_repeated(text: str, addresses: set[str], names: set[str]) -> str:
    text = PICTURE.sub(lambda found: " " if " ".join(_words(found[1])) in names else found[0], text)
    return URL.sub(lambda found: " " if _address(found[0]) in addresses else found[0], text)


def _address(value: str) -> str:
    value = value.strip().casefold()
    for scheme in ("https://", "http://", "mailto:", "tel:", "cid:"):
        value = value.removeprefix(scheme)
    return value.removeprefix("www.").rstrip("/.,;:!?>)")


def _words(text: str) -> list[str]:
    return WORD.findall(unicodedata.normalize("NFKC", without_invisible(text)).casefold())
