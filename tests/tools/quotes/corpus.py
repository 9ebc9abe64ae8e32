"""The mails of tests/corpus/quotes: generated from the forms of mail programs, and written by hand.

A third is held out: nobody looked at these mails while the patterns were written.
"""

import random
import textwrap
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent.parent.parent / "corpus" / "quotes"
SEED = 20260303
FIRST_DAY = datetime(2025, 1, 6, 7, 5, tzinfo=UTC)
WROTE = {"en": "wrote", "de": "schrieb", "fr": "a écrit", "es": "escribió"}
Fields = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Letter:
    """A mail, and its sentences: `own` must stay, `quoted` and `signature` should be folded."""

    name: str
    subject: str
    text: str | None = None
    html: str | None = None
    to: tuple[str, ...] = ()
    cc: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    quoted: tuple[str, ...] = ()
    signature: tuple[str, ...] = ()
    held_out: bool = False


def list_letters() -> tuple[Letter, ...]:
    return (*_generate(), *list_hand_written())


def list_hand_written() -> tuple[Letter, ...]:
    letters = []
    for name in ("by_hand", "by_hand_held_out"):
        for mail in _read_file(f"{name}.toml")["mail"]:
            given: dict[str, Any] = {
                key: tuple(value) if isinstance(value, list) else value
                for key, value in mail.items()
            }
            letters.append(Letter(held_out=name.endswith("held_out"), **given))
    return tuple(letters)


def _read_file(name: str) -> dict[str, Any]:
    return tomllib.loads((FOLDER / name).read_text())


def _generate() -> Iterator[Letter]:
    languages = _read_file("languages.toml")
    for client in _read_file("clients.toml")["client"]:
        spoken = client.get("languages") or list(client.get("attr", languages))
        for language in spoken:
            place = f"{client['name']}, {client['form']}, {language}"
            held_out = int(sha256(place.encode()).hexdigest(), 16) % 3 == 0
            chance = random.Random(f"{SEED} {place}")
            for layout in client["layouts"]:
                draw = _Draw(client, languages[language], language, chance)
                yield replace(draw.letter(layout), name=f"{place}, {layout}", held_out=held_out)


class _Draw:
    """One mail of a program in a language, with sentences by chance."""

    def __init__(self, client: Fields, language: Fields, code: str, chance: random.Random) -> None:
        self.client, self.words, self.code, self.chance = client, language, code, chance
        self.html = client["form"] == "html"
        (self.name, self.address), (self.own_name, self.own_address) = chance.sample(
            [tuple(person) for person in language["people"]], 2
        )
        self.own = tuple(chance.sample(language["own"], chance.randint(1, 3)))
        self.quote = tuple(chance.sample(language["quote"], 4))
        self.older = tuple(row for row in language["quote"] if row not in self.quote)
        self.moment = FIRST_DAY + timedelta(minutes=chance.randrange(400_000))

    def letter(self, layout: str) -> Letter:
        kind = "forward" if layout == "forward" else "reply"
        subject = self.chance.choice(self.words[kind]) + self.words["subject"]
        if layout == "inline":
            return self._inline(subject)
        own, signature = self.own, self._signature(layout)
        if layout == "bare":
            own = ()
        older = self._older() if layout == "chain" else ""
        source = self._source(layout, kind, own, signature, older)
        quoted = self.quote + (self.older if layout == "chain" else ())
        if layout != "forward" and self.client.get("attr"):
            quoted += (self._attribution(),)
        return Letter(
            name="",
            subject=subject,
            text=None if self.html else source,
            html=source if self.html else None,
            own=own + quoted if layout in ("forward", "bare") else own,
            quoted=() if layout in ("forward", "bare") else quoted,
            signature=signature,
        )

    def _signature(self, layout: str) -> tuple[str, ...]:
        if layout == "device":
            return (self.chance.choice(self.words["device"]),)
        return (self.own_name, *self.words["company"]) if layout == "signed" else ()

    def _source(
        self, layout: str, kind: str, own: Sequence[str], signature: Sequence[str], older: str
    ) -> str:
        fields = self._fields() | {"older": older}
        if self.html:
            row = self.client["row"]
            rows = "".join(row.format(escape(each, quote=False)) for each in own)
            if signature:
                template = self.client.get("device" if layout == "device" else "signature", row)
                rows += template.replace("{signature}", "<br>".join(signature))
            fields |= {
                "own_rows": rows,
                "rows": "".join(row.format(escape(each, quote=False)) for each in self.quote),
            }
            return str(self.client["bottom" if layout == "bottom" else kind]).format(**fields)
        quote = "\n".join(self.quote) + (f"\n\n{older}" if older else "")
        fields |= self._quoted(quote) | {"own": "\n".join(own)}
        if signature:
            dashes = "" if layout == "device" else "-- \n"
            fields["own"] += f"\n\n{dashes}" + "\n".join(signature)
        template = self.client[kind]
        if layout == "bottom":
            template = "{attr}\n{quoted}\n\n{own}\n"
        return str(template).format(**fields)

    def _quoted(self, quote: str) -> dict[str, str]:
        rows = quote.split("\n")
        return {
            "quote": quote,
            "quoted": "\n".join(f"> {row}".rstrip() for row in rows),
            "quote_in": "\n ".join(rows),
        }

    def _older(self) -> str:
        """Return an older mail, as it is below the quoted one."""
        draw = _Draw(self.client, self.words, self.code, self.chance)
        draw.quote = self.older
        source = draw._source("top", "reply", (), (), "")
        if self.html:
            return source.removeprefix("<html>").removesuffix("</html>")
        return source.strip()

    def _inline(self, subject: str) -> Letter:
        pairs = self.words["pairs"]
        answers = tuple(answer for _, answer in pairs)
        if self.html:
            fields = self._fields()
            source = "".join(
                self.client["pair"].format(
                    question=question,
                    answer=answer,
                    attr_once=f"{fields['attr_html']}<br><br>" if not number else "",
                )
                for number, (question, answer) in enumerate(pairs)
            )
            source = self.client["inline"].format(**fields | {"pairs": source})
            return Letter(name="", subject=subject, html=source, own=answers)
        between = "\n\n".join(f"> {question}\n\n{answer}" for question, answer in pairs)
        text = f"{self._fields()['attr']}\n\n{between}\n"
        return Letter(name="", subject=subject, text=text, own=answers)

    def _attribution(self) -> str:
        return str(self.client["attr"][self.code]).format(**self._moment())

    def _fields(self) -> dict[str, Any]:
        fields = self._moment()
        if self.client.get("attr"):
            attribution = self._attribution()
            wrapped = textwrap.wrap(attribution, self.client.get("wrap", 999)) or [""]
            fields |= {"attr": "\n".join(wrapped), "attr_html": escape(attribution, quote=False)}
        return fields

    def _moment(self) -> dict[str, Any]:
        at, words = self.moment, self.words
        fields: dict[str, Any] = {
            key: value for key, value in words.items() if isinstance(value, str)
        }
        hour = at.hour % 12 or 12
        fields |= {
            "name": self.name,
            "address": self.address,
            "own_name": self.own_name,
            "own_address": self.own_address,
            "weekday3": words["days"][at.weekday()],
            "weekday": words["weekdays"][at.weekday()],
            "month": words["months"][at.month - 1],
            "long_month": words["long_months"][at.month - 1],
            "month_number": at.month,
            "month2": f"{at.month:02}",
            "day": at.day,
            "day2": f"{at.day:02}",
            "year": at.year,
            "time": f"{at.hour:02}:{at.minute:02}",
            "time12": f"{hour}:{at.minute:02} {'AM' if at.hour < 12 else 'PM'}",
            "wrote": WROTE.get(self.code, "wrote"),
        }
        return fields | {"sent": words["sent"].format(**fields)}
