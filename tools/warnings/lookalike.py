"""Domains that imitate others. Pure.

They have letters that look the same (UTS #39 skeletons), one different letter, the same beginning,
another ending, or an added word.
"""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache
from pathlib import Path

import idna

from tools.mail.text.owners import ending_of, is_of_registry, owned_part_of

# Of the characters that a domain may have; `bin/lookalikes` makes them from the data of Unicode.
TABLES = Path(__file__).with_name("unicode")
# The skeleton of UTS #39 for the characters of an ASCII domain; a test compares it with the tables.
# Because of it, most domains need no tables. UTS #39 does not list two v as a confusable, but they
# are read as w.
ASCII = {"0": "o", "1": "l", "m": "rn"}
SHORTEST = 6  # in a shorter name, one other letter is usually another name
# Public mail services: an address at a similar service is usually just another address.
WELL_KNOWN = frozenset(
    """
    gmail.com googlemail.com hotmail.com hotmail.de hotmail.co.uk outlook.com outlook.de live.com live.de
    msn.com mail.com yahoo.com yahoo.de yahoo.co.uk yahoo.co.jp ymail.com icloud.com me.com mac.com aol.com
    gmx.de gmx.net gmx.com gmx.at gmx.ch web.de t-online.de freenet.de posteo.de posteo.net mailbox.org
    proton.me protonmail.com pm.me fastmail.com qq.com 163.com 126.com 139.com sina.com sina.cn sohu.com
    foxmail.com aliyun.com yeah.net naver.com
    """.split()
)
# Last labels that are typing errors of another one.
SLIPS = {
    "com": {"co", "cm", "om", "con", "cpm", "comm", "xom"},
    "net": {"ne", "met", "nett"},
    "org": {"og", "orq"},
}
# Country endings that everybody uses; under the other ones a company has its own name too.
OPEN_COUNTRIES = frozenset(
    "ai app cc cf cm co fm ga gg gq io la ly me ml pw sh su tk to tv ws".split()
)
# A name of this length is usually one company's name, not a common word.
OWN_NAME = 5
COMMON_NAMES = frozenset(
    """
    about agency bank blog books business capital care center central church clinic cloud college
    community company connect consulting data design digital direct energy engineering europe events express family
    finance first forum foundation garden global group hello health holding homes hotel house image india info
    insurance institute international jobs legal library local logistics market marketing media medical mobile money
    music national network news office online open partners people photo post press print projects public radio
    research reserve review school schools science security server service services shop smart social software
    solutions sport sports store studio support systems team tech technology times today tools trade training travel
    university video water website weekly wiki women world youth
    """.split()
)
# Words that make another company's name look like a part of that company.
BAIT = frozenset(
    """
    access account accounts admin alert alerts app apps auth bank billing care center check claim client clients cloud
    confirm connect contact corp corporate customer customers delivery desk docs document documents email finance group
    help helpdesk hr id inc info internal invoice invoices invoicing it jobs legal limited login ltd mail mailing
    meeting message my notice notification office official online order orders pay payment payments payroll portal
    procurement refund remittance reset safe secure security server service services share shipping sign signin sso
    staff support team tech transfer treasury update updates vendor verification verify wallet web webmail
    """.split()
)
# Scripts that one language uses together (UTS #39, "highly restrictive").
TOGETHER = (
    {"Latin", "Han", "Hiragana", "Katakana"},
    {"Latin", "Han", "Bopomofo"},
    {"Latin", "Han", "Hangul"},
)


def model_of(domain: str, known: frozenset[str]) -> str | None:
    """Return the known domain that this unknown one imitates, or None.

    Both are in ASCII, as on the wire.
    """
    if domain in WELL_KNOWN or any(owned_part_of(domain) == owned_part_of(each) for each in known):
        return None
    shape, read = skeleton(domain), decode_domain(domain)
    for each in sorted(known):
        other = decode_domain(each)
        if skeleton(each) == shape or _begins_like(domain, each) or _one_slip(read, other):
            return each
        if _other_ending(read, other) or _added_word(read, other):
            return each
    return None


class Index:
    """Domains, found by what one that imitates them shares with them: a mail can have a thousand
    recipients, and a mailbox know ten thousand domains.
    """

    def __init__(self, domains: Iterable[str]) -> None:
        self._found: dict[tuple[str | int, ...], list[str]] = {}
        for domain in domains:
            for mark in _marks_of(domain):
                self._found.setdefault(mark, []).append(domain)

    def find_near(self, domain: str) -> set[str]:
        """Return few domains, among them all that `model_of` may find for this one, and those of its
        owner.
        """
        return {each for mark in _marks_near(domain) for each in self._found.get(mark, ())}


def _marks_of(known: str) -> Iterator[tuple[str | int, ...]]:
    yield "owner", owned_part_of(known)
    yield "shape", skeleton(known)
    yield "start", known
    yield "start", known.replace(".", "-")
    read = decode_domain(known)
    yield "name", _name_and_ending(read)[0]
    name = read.rpartition(".")[0]
    yield "slip", name
    if len(name) >= SHORTEST:
        yield from _ends_of(name, len(name))


def _marks_near(domain: str) -> Iterator[tuple[str | int, ...]]:
    yield "owner", owned_part_of(domain)
    yield "shape", skeleton(domain)
    yield from (("start", domain[:end]) for end in range(1, len(domain) + 1))
    read = decode_domain(domain)
    own = _name_and_ending(read)[0]
    for begin in range(len(own) - OWN_NAME + 1):
        yield from (("name", own[begin:end]) for end in range(begin + OWN_NAME, len(own) + 1))
    name = read.rpartition(".")[0]
    yield "slip", name
    for length in (len(name) - 1, len(name), len(name) + 1):
        if min(length, len(name)) >= SHORTEST:
            yield from _ends_of(name, length)


def _ends_of(name: str, length: int) -> Iterator[tuple[str | int, ...]]:
    """Yield both ends of a name. Of two that differ in one letter, or in two that are swapped, one
    end is the same; `length` is that of the known one.
    """
    part = (length - 2) // 2
    yield "begin", length, name[:part]
    yield "end", length, name[-part:]


@lru_cache(maxsize=50_000)
def decode_domain(domain: str) -> str:
    """Return the domain as people read it: in its own letters, not in punycode."""
    try:
        return idna.decode(domain).lower() if "xn--" in domain else domain.lower()
    except idna.IDNAError:
        return domain.lower()


def spell_domain(domain: str) -> str:
    """Return the domain for people: its letters, and the ASCII form if that differs."""
    read = decode_domain(domain)
    return domain if read == domain else f"{read} ({domain})"


@lru_cache(maxsize=50_000)
def skeleton(domain: str) -> str:
    """Return a form that is equal for domains that look the same."""
    read = unicodedata.normalize("NFD", ".".join(_letters_of(domain)))
    shape = "".join(_prototype(character) for character in read)
    return unicodedata.normalize("NFD", shape).lower().replace("vv", "w")


def mixes_scripts(domain: str) -> bool:
    """Return True if one label mixes scripts that no language uses together."""
    return any(_is_mixed(label) for label in _letters_of(domain) if not label.isascii())


def _letters_of(domain: str) -> list[str]:
    return [_decode_label(label) for label in domain.lower().split(".")]


def _decode_label(label: str) -> str:
    """Return the label in its letters, also if they are newer than this Python."""
    if not label.startswith("xn--"):
        return label
    try:
        return idna.ulabel(label)
    except idna.IDNABidiError:  # the last check, which a letter fails whose direction is not known
        return label[4:].encode().decode("punycode")
    except idna.IDNAError:
        return label


def _is_mixed(label: str) -> bool:
    starts, names = _scripts()
    scripts = {names[bisect_right(starts, ord(each)) - 1] for each in label}
    scripts -= {"Common", "Inherited"}
    return len(scripts) > 1 and not any(scripts <= together for together in TOGETHER)


def _prototype(character: str) -> str:
    if character.isascii():
        return ASCII.get(character, character)
    return prototypes().get(character, character)


@cache
def prototypes() -> Mapping[str, str]:
    """Return the prototype of each character that has one, in ASCII too."""
    return {
        chr(int(point, 16)): "".join(chr(int(each, 16)) for each in prototype)
        for point, *prototype in _rows("prototypes.txt")
    }


@cache
def _scripts() -> tuple[list[int], list[str]]:
    rows = _rows("scripts.txt")
    return [int(start, 16) for start, _ in rows], [name for _, name in rows]


def _rows(table: str) -> list[list[str]]:
    lines = (TABLES / table).read_text().splitlines()
    return [line.split() for line in lines if not line.startswith("#")]


def _begins_like(domain: str, known: str) -> bool:
    """Return True for `northwind.example.pay.example` or `northwind-example.pay.example`."""
    return domain.startswith((f"{known}.", f"{known}-", known.replace(".", "-")))


def _other_ending(domain: str, known: str) -> bool:
    """Return True for `northwind.co` instead of `northwind.example`.

    `northwind.de` is not reported, because it usually belongs to the same company, and nor is
    `northwind.zendesk.com`, a name at somebody's service.
    """
    (name, ending), (known_name, known_ending) = _name_and_ending(domain), _name_and_ending(known)
    if name != known_name or ending == known_ending or len(name) < OWN_NAME or name in COMMON_NAMES:
        return False
    return (
        is_of_registry(ending)
        and not _is_country(ending)
        and not (_is_country(known_ending) and ending == "com")
    )


def _is_country(ending: str) -> bool:
    last = ending.rpartition(".")[2]
    return len(last) == 2 and ending not in OPEN_COUNTRIES


def _added_word(domain: str, known: str) -> bool:
    """Return True for `northwind-secure.example`, `secure-northwind.net` or
    `northwindpayments.com`.
    """
    name, known_name = _name_and_ending(domain)[0], _name_and_ending(known)[0]
    if (
        len(known_name) < OWN_NAME
        or known_name in COMMON_NAMES
        or name == known_name
        or known_name not in name
    ):
        return False
    added = [word for word in re.split(r"[-_]", name.replace(known_name, "-", 1)) if word]
    return bool(added) and all(word in BAIT or word.isdigit() for word in added)


def _name_and_ending(domain: str) -> tuple[str, str]:
    """Return name and ending: `mail.northwind.co.uk` → (`northwind`, `co.uk`)."""
    ending = ending_of(domain)
    return domain.removesuffix(ending).rstrip(".").rpartition(".")[2], ending


def _one_slip(domain: str, known: str) -> bool:
    name, _, last = domain.rpartition(".")
    known_name, _, known_last = known.rpartition(".")
    if last != known_last:
        return name == known_name and last in SLIPS.get(known_last, ())
    if min(len(name), len(known_name)) < SHORTEST or abs(len(name) - len(known_name)) > 1:
        return False
    return _differ_in_one(name, known_name)


def _differ_in_one(name: str, other: str) -> bool:
    """Return True if one letter is added, missing or different, or two neighbours are swapped.

    Different digits do not count, because they are different numbers.
    """
    start = next(
        (i for i, (a, b) in enumerate(zip(name, other, strict=False)) if a != b),
        min(len(name), len(other)),
    )
    rest, other_rest = name[start:], other[start:]
    if len(name) == len(other):
        if rest[0].isdigit() and other_rest[0].isdigit():
            return False
        return rest[1:] == other_rest[1:] or (
            rest[:2] == other_rest[1::-1] and rest[2:] == other_rest[2:]
        )
    longer, shorter = (rest, other_rest) if len(rest) > len(other_rest) else (other_rest, rest)
    return longer[1:] == shorter and not longer[0].isdigit()
