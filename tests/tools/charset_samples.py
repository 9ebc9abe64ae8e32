"""Texts on which nothing was tuned: pieces of Django's translations, in the old charsets of each language."""

import gettext
import random
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import django

SEED = 1
EACH = 4  # texts of each language, charset and length
MOST_DRAWS = 300  # many texts have letters that the charset lacks
WORDS = (3, 8, 20, 60)
HEADER_WORDS = (2, 6)
CHARSETS = {
    **dict.fromkeys("de fr es pt it nl da sv fi nb is ca".split(), "cp1252"),
    **dict.fromkeys("pl cs hu".split(), "cp1250 iso8859_2"),
    **dict.fromkeys("ro hr sk sl".split(), "cp1250"),
    **dict.fromkeys("bg sr".split(), "cp1251"),
    **dict.fromkeys("ar fa".split(), "cp1256"),
    **dict.fromkeys("lt lv et".split(), "cp1257"),
    "ru": "cp1251 koi8_r iso8859_5",
    "uk": "cp1251 koi8_u",
    "el": "cp1253 iso8859_7",
    "tr": "cp1254",
    "he": "cp1255",
    "vi": "cp1258",
    "th": "cp874",
    "ja": "cp932 euc_jp",
    "zh_Hans": "gb18030",
    "zh_Hant": "big5hkscs",
    "ko": "cp949",
}
WITHOUT_BLANKS = frozenset("ja zh_Hans zh_Hant th".split())  # two characters count as a word
PLACEHOLDER = re.compile(r"%\(\w+\)[sd]|%[sd%]|\{[^}]*\}|<[^>]*>|&\w+;")
# English, and words of other languages in it. All of it is windows-1252.
WESTERN = """
    It’s fine, don’t worry|“Hello” she said|café|résumé attached|naïve approach|Price: 5 €
    £5 for tea|Foo™ and Bar®|20° today|§ 5 of the contract|Jürgen|Müller|François|José|Øystein|Zoë
    Núñez|5 – 7 pm|really…|• one • two|nº 5, 1ª|½ price|Søren Kierkegård|Ångström|São Paulo
    À bientôt|Déjà vu|Ça va ?|©2024|Köln|Grüße|Smørrebrød|Æ|Ñandú|crème brûlée|Straße 5|weiß
    Übergabe am 5.|ÄÖÜ|GRÖSSE|FRANÇAIS|«Bonjour»|M² und m³|10 µm|±5|Señor
"""


@dataclass(frozen=True, kw_only=True)
class Sample:
    language: str
    codec: str
    length: str  # "header", or a number of words
    text: str

    @property
    def content(self) -> bytes:
        return self.text.encode(self.codec)


@cache
def list_samples() -> tuple[Sample, ...]:
    draw = random.Random(SEED)
    return (*(sample for pair in _pairs() for sample in _draw_samples(*pair, draw)), *_western())


def _pairs() -> Iterator[tuple[str, str]]:
    return ((language, codec) for language, codecs in CHARSETS.items() for codec in codecs.split())


def _western() -> Iterator[Sample]:
    for text in WESTERN.replace("\n", "|").split("|"):
        if text.strip():
            yield Sample(language="en", codec="cp1252", length="western", text=text.strip())


def _draw_samples(language: str, codec: str, draw: random.Random) -> Iterator[Sample]:
    texts = _list_texts(language)
    for length in ("header", *map(str, WORDS)):
        found: set[str] = set()
        for _ in range(MOST_DRAWS):
            if len(found) == EACH:
                break
            text = _draw_text(texts, length, draw, spaced=language not in WITHOUT_BLANKS)
            if _is_useful(text, codec) and text not in found:
                found.add(text)
                yield Sample(language=language, codec=codec, length=length, text=text)


def _draw_text(texts: list[str], length: str, draw: random.Random, *, spaced: bool) -> str:
    """Return a header from one text, or some texts that follow each other, cut to the length."""
    start = draw.randrange(len(texts))
    words = draw.randint(*HEADER_WORDS) if length == "header" else int(length)
    joined = " ".join(texts[start : start + (1 if length == "header" else words)])
    return " ".join(joined.split()[:words]) if spaced else joined[: 2 * words].strip()


def _is_useful(text: str, codec: str) -> bool:
    try:
        return not text.encode(codec).isascii()
    except UnicodeError:
        return False


@cache
def _list_catalogs() -> dict[str, list[Path]]:
    found = defaultdict[str, list[Path]](list)
    for path in sorted(Path(django.__file__).parent.glob("**/locale/*/LC_MESSAGES/django.mo")):
        found[path.parts[-3]].append(path)
    return found


@cache
def _list_texts(language: str) -> list[str]:
    found = []
    for path in _list_catalogs()[language]:
        with path.open("rb") as file:
            texts = gettext.GNUTranslations(file)._catalog  # type: ignore[attr-defined]
        found += [
            " ".join(PLACEHOLDER.sub(" ", text).split())
            for key, text in sorted(texts.items(), key=str)
            if key
        ]
    return [text for text in found if len(text) > 3]
