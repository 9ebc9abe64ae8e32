"""Encoded words (RFC 2047) as real programs write them. Pure, linear.

Words may be cut inside a character, hold blanks, lack their padding, or be nested in another word.
White space between two words is not part of the text.
"""

import base64
import binascii
import re
from collections.abc import Callable, Sequence
from quopri import decodestring

from tools.mail.text.decoding import text_of

# The text of a word ends before the next word, so that each character is looked at once.
WORD = re.compile(r"=\?([^?\s]{0,60})\?([bBqQ])\?((?:(?!=\?[^?\s=])[\s\S])*?)\?=")
NOT_BASE64 = re.compile(r"[^A-Za-z0-9+/]")
ROUNDS = 2  # a word inside a word
Words = Sequence[re.Match[str]]


def decode_words(text: str) -> str:
    """Return the text with its encoded words decoded; a word that cannot be decoded stays."""
    for _ in range(ROUNDS):
        if "=?" not in text:
            break
        text = _rewrite(text, _decode_joined)
    return text


def protect_words(text: str) -> str:
    """Return the text with its encoded words in base64, without characters that end a name."""
    return _rewrite(text, _encode_again) if "=?" in text else text


def _encode_again(words: Words) -> str:
    return (
        f"=?utf-8?b?{base64.b64encode(_decode_joined(words).encode()).decode()}?=" if words else ""
    )


def _rewrite(text: str, write: Callable[[Words], str]) -> str:
    pieces: list[str] = []
    reached = 0
    waiting: list[re.Match[str]] = []  # words of one charset, with nothing but blanks between them
    for word in WORD.finditer(text):
        between = text[reached : word.start()]
        adjacent = bool(waiting) and not between.strip()
        if waiting and not (adjacent and _charset(waiting[-1]) == _charset(word)):
            pieces.append(write(waiting))
            waiting = []
        if not adjacent:
            pieces.append(between)
        waiting.append(word)
        reached = word.end()
    return "".join((*pieces, write(waiting), text[reached:]))


def _charset(word: re.Match[str]) -> str:
    return word[1].partition("*")[0].lower()


def _decode_joined(words: Words) -> str:
    """Return the text of adjacent words: a character may begin in one and end in the next."""
    content = bytearray()
    rest = ""  # of base64 that was cut inside a group
    for place, word in enumerate(words):
        if word[2] in "qQ":
            content += decodestring(word[3].encode("utf-8", "surrogateescape"), header=True)
            continue
        text = rest + NOT_BASE64.sub("", word[3].replace("-", "+").replace("_", "/"))
        following = words[place + 1][2] if place + 1 < len(words) else ""
        is_cut = len(text) % 4 and not word[3].rstrip().endswith("=") and following in ("b", "B")
        rest = text[len(text) // 4 * 4 :] if is_cut else ""
        content += _bytes_of_b(text[: len(text) - len(rest)])
    if not content and any(word[3].strip() for word in words):
        return "".join(word[0] for word in words)
    return text_of(bytes(content), _charset(words[0])) if words else ""


def _bytes_of_b(text: str) -> bytes:
    try:
        return base64.b64decode(text[: len(text) - (len(text) % 4 == 1)] + "==")
    except (binascii.Error, ValueError):
        return b""
