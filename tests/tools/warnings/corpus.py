"""The mails of tests/corpus/warnings: ordinary ones, and traps with the warning that each needs."""

import random
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.tools.warnings.messages import answered, codes, message

FOLDER = Path(__file__).parent.parent.parent / "corpus" / "warnings"
KNOWN = answered("northwind.example", "contoso.example")
SEED = 20260301
IBANS = ("DE89 3704 0044 0532 0130 00", "GB29 NWBK 6016 1331 9268 19", "FR14 2004 1010 0505 0001 3M02 606",
         "ES91 2100 0418 4502 0005 1332", "CH93 0076 2011 6238 5295 7")  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Mail:
    """A mail of the corpus; `warning` is "" for an ordinary one."""

    place: str  # the kind of list in the file: texts, pages, answered, subjects, recipients
    text: str
    warning: str = ""

    def codes(self) -> frozenset[str]:
        """Return the codes of all warnings about the mail."""
        fields: dict[str, Any] = {"to": ("mira@northwind.example",)}
        known: dict[str, Any] = {"known_domains": KNOWN}
        body = "Hello Mira,\n\nsee you on Friday.\n\nAlice"
        match self.place:
            case "texts" | "pages":
                body = self.text
            case "answered":
                known["prompted_by"] = f"Hello Alice,\n\n{self.text}\n\nMira"
            case "subjects":
                fields["subject"] = self.text
            case "recipients":
                fields["to"] = (self.text,)
        return frozenset(codes(message(body, html=self.place == "pages", **fields), **known))


def list_ordinary() -> tuple[Mail, ...]:
    """Return all ordinary mails: the hand-written ones first."""
    return (*list_hand_written(), *_read_mails("independent-ordinary.toml"), *_fill_templates())


def list_hand_written() -> tuple[Mail, ...]:
    return tuple(_read_mails("ordinary.toml"))


def list_traps() -> tuple[Mail, ...]:
    return (*_read_mails("traps.toml"), *_read_mails("independent-traps.toml"))


def list_held_out() -> tuple[Mail, ...]:
    """Return ordinary mails that tuned no pattern."""
    return tuple(_read_mails("held-out-ordinary.toml"))


def list_held_out_traps() -> tuple[Mail, ...]:
    return tuple(_read_mails("traps.toml", groups="held_out"))


def _read_file(name: str) -> dict[str, Any]:
    return tomllib.loads((FOLDER / name).read_text())


def _read_mails(name: str, *, groups: str = "group") -> Iterator[Mail]:
    for group in _read_file(name)[groups]:
        for place in ("texts", "pages", "answered", "subjects", "recipients"):
            for text in group.get(place, ()):
                yield Mail(
                    place=place, text=text.replace("·", ""), warning=group.get("warning", "")
                )


def _fill_templates() -> Iterator[Mail]:
    read = _read_file("templates.toml")
    chance = random.Random(SEED)
    for group in read["group"]:
        for template in group["templates"]:
            drawn = {_draw(group, template, chance) for _ in range(read["copies"] * 2)}
            for text in sorted(drawn)[: read["copies"]]:
                yield Mail(place="texts", text=text)


def _draw(group: dict[str, Any], template: str, chance: random.Random) -> str:
    slots = {name: chance.choice(values) for name, values in group["slots"].items()}
    slots["iban"] = chance.choice(IBANS)
    slots["short"] = str(chance.randrange(1000, 9999))
    # Beginnings of cards too: one number in ten has a correct check digit.
    slots["long"] = f"{chance.choice((4, 51, 62))}{chance.randrange(10**15):015d}"[:16]
    parts = (chance.choice(group["greeting"]), template, chance.choice(group["farewell"]))
    return "\n\n".join(part.format(**slots) for part in parts)
