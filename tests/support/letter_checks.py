"""The results of the tools for a message, and their comparison with what the corpus expects."""

import base64
import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.support.growth import is_expensive
from tests.support.letters import File, Letter
from tests.support.people.four_mailboxes import Door

REPLACED = "\ufffd"
LONGEST_NAME = 120
MILLIONS = 40  # steps of Python for one call: about a second
UNSAFE = re.compile(r'[/\\:*?"<>|]|^\s|[ .]$|^\.\.?$|^$')
RESERVED = re.compile(r"(?i)(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?")
OWN_OF_A_PROVIDER = ("id", "thread_id")


@dataclass(kw_only=True)
class Seen:
    """The results of the tools for one message at one provider."""

    card: dict[str, Any]
    read: dict[str, Any]
    whole: dict[str, Any] = field(default_factory=dict)
    listed: list[dict[str, Any]] = field(default_factory=list)
    contents: list[bytes | None] = field(default_factory=list)
    expensive: list[str] = field(default_factory=list)
    has_date: bool = True

    def common(self) -> dict[str, Any]:
        """Return the results without the names that each provider gives things."""
        own = OWN_OF_A_PROVIDER if self.has_date else (*OWN_OF_A_PROVIDER, "date")
        read = {name: value for name, value in self.read.items() if name not in own}
        return {
            "read": read | {"attachments": [_common(row) for row in read.get("attachments", [])]},
            "whole": self.whole.get("body"),
            "listed": [_common(row) for row in self.listed],
            "contents": self.contents,
        }


def see(door: Door, letter: Letter, card: dict[str, Any]) -> Seen:
    """Read the message with every tool, and its attachments."""
    seen = Seen(read={}, card=card, has_date=letter.date != "arrival")

    message_id = card["id"]

    def call(name: str, **arguments: Any) -> dict[str, Any]:
        results: list[dict[str, Any]] = []
        if is_expensive(lambda: results.append(door.tool(name, **arguments)), millions=MILLIONS):
            seen.expensive.append(name)
        return results[0]

    seen.read = call("read_email", message_id=message_id, max_chars=20_000)
    if letter.quoted:
        seen.whole = call("read_email", message_id=message_id, max_chars=20_000, quoted=True)
    # Most messages have no files: both tools read the same parts, so one call is enough for these.
    if letter.files or letter.may_list or "attachments" in seen.read:
        seen.listed = call("list_attachments", message_id=message_id).get("attachments", [])
    for row in seen.listed:
        file = call(
            "download_attachment",
            message_id=message_id,
            attachment_id=row["id"],
            **{"as": "base64"},
        )
        content = file.get("content_base64")
        seen.contents.append(None if content is None else base64.b64decode(content))
    return seen


def list_failures(letter: Letter, seen: Seen) -> list[str]:
    """Return what is wrong with the results, each in one short sentence."""
    if "body" not in seen.read:
        return [f"it is not read: {seen.read}"]
    return [
        *_check_headers(letter, seen),
        *_check_text(letter, seen),
        *_check_kind(letter, seen.read),
        *_check_files(letter, seen),
        *_check_names(seen.listed),
        *_check_characters(letter, seen),
        *(f"{name} takes too much time" for name in seen.expensive),
    ]


def _check_headers(letter: Letter, seen: Seen) -> Iterator[str]:
    read = seen.read
    subject = letter.id if letter.subject is None else letter.subject
    wanted = {
        "subject": subject,
        "from": letter.sender,
        "to": letter.to,
        "cc": letter.cc,
        "date": letter.date if seen.has_date else read["date"] or "an arrival",
    }
    for name, value in wanted.items():
        if value is not None and _one_line(read.get(name, [])) != _one_line(value):
            yield f"{name} is {read.get(name)!r}, not {value!r}"
    if letter.name is not None and seen.card.get("name", "") != letter.name:
        yield f"the sender's name in a list is {seen.card.get('name')!r}"
    if letter.sender is not None and letter.listed and seen.card["from"] != letter.sender:
        yield f"the sender in a list is {seen.card['from']!r}"


def _check_text(letter: Letter, seen: Seen) -> Iterator[str]:
    body = str(seen.read["body"])
    if letter.body is not None and body != letter.body.strip("\n"):
        yield f"the body is {body!r}"
    place = 0
    for text in letter.must_read:
        found = body.find(text, place)
        if found < 0:
            order = "in this order " if text in body else ""
            yield f"{text!r} is not read {order}in {body!r}"
        place = max(place, found + len(text))
    for text in letter.must_not_read:
        if text in body or text in str(seen.read["subject"]):
            yield f"{text!r} is read in {body!r}"
    if bool(seen.read.get("hidden_text_removed")) is not letter.hidden:
        yield f"hidden text is {'' if letter.hidden else 'wrongly '}{'not ' * letter.hidden}reported"
    for text in letter.quoted:
        if text in body:
            yield f"the quote {text!r} is not folded in {body!r}"
        if text not in str(seen.whole.get("body")):
            yield f"the quote {text!r} is not in the whole text {seen.whole}"
    if letter.quoted and not any(seen.read.get("folded", {}).values()):
        yield "the result does not say that something was folded"


def _check_kind(letter: Letter, read: Mapping[str, Any]) -> Iterator[str]:
    if letter.kind == "any":
        return
    if read.get("kind") != letter.kind:
        yield f"the kind is {read.get('kind')!r}, not {letter.kind!r}"
    elif letter.kind and not _holds(read.get(letter.kind), letter.facts):
        yield f"the facts are {read.get(letter.kind)!r}"
    notes = read.get("notes", [])
    for words in letter.notes or []:
        if not any(words.lower() in note.lower() for note in notes):
            yield f"no note says {words!r}: {notes}"
    if letter.notes == [] and notes:
        yield f"there are notes: {notes}"


def _holds(found: Any, wanted: Any) -> bool:
    """Return True if the result has what is wanted, and possibly more."""
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(_holds(found.get(k), v) for k, v in wanted.items())
    if isinstance(wanted, list):
        return (
            isinstance(found, list)
            and len(found) == len(wanted)
            and all(_holds(*pair) for pair in zip(found, wanted, strict=True))
        )
    if isinstance(wanted, str) and isinstance(found, str):
        pattern = ".*".join(map(re.escape, wanted.split("…")))
        return re.fullmatch(pattern, found, re.DOTALL) is not None
    return bool(found == wanted)


def _check_files(letter: Letter, seen: Seen) -> Iterator[str]:
    shown = [_common(row) for row in seen.listed]
    in_read = [_common(row) for row in seen.read.get("attachments", [])]
    if [row["name"] for row in shown] != [row["name"] for row in in_read]:
        yield f"list_attachments and read_email differ: {shown} and {in_read}"
    known = {file.name for file in letter.files}
    found = [
        (row, content)
        for row, content in zip(shown, seen.contents, strict=True)
        if row["name"] in known
        or not any(re.fullmatch(pattern, row["name"]) for pattern in letter.may_list)
    ]
    if len(found) != len(letter.files):
        yield f"the files are {shown}"
        return
    for file, (row, content) in zip(letter.files, found, strict=True):
        yield from _check_file(file, row, content)


def _check_file(file: File, row: Mapping[str, Any], content: bytes | None) -> Iterator[str]:
    name = str(row["name"])
    if (file.name and name != file.name) or not re.fullmatch(file.matches or ".*", name):
        yield f"a file is named {name!r}, not {file.name or file.matches!r}"
    if file.original_name is not None and row.get("original_name", "") != file.original_name:
        yield f"the original name of {name!r} is {row.get('original_name')!r}"
    if file.type and row["type"] != file.type:
        yield f"the type of {name!r} is {row['type']!r}"
    if file.inline is not None and bool(row.get("inline")) is not file.inline:
        yield f"{name!r} is {'' if file.inline else 'wrongly '}inline"
    if content is None:
        yield f"{name!r} cannot be downloaded"
        return
    if file.bytes is not None and content != file.bytes:
        yield f"{name!r} has the content {content[:200]!r}"
    if not row.get("size_is_estimate") and row["size"] != len(content):
        yield f"{name!r} has {len(content)} bytes, and its size is {row['size']}"


def _check_names(rows: list[dict[str, Any]]) -> Iterator[str]:
    names = [str(row["name"]) for row in rows]
    for name in names:
        if UNSAFE.search(name) or RESERVED.fullmatch(name) or len(name) > LONGEST_NAME:
            yield f"the name {name!r} is not safe"
    if len({name.casefold() for name in names}) < len(names):
        yield f"two files have the same name: {names}"


def _check_characters(letter: Letter, seen: Seen) -> Iterator[str]:
    texts = list(
        _texts({name: value for name, value in seen.read.items() if name != "attachments"})
    )
    names = [str(row["name"]) for row in seen.listed]
    for text in (*texts, *names, *(str(row.get("original_name", "")) for row in seen.listed)):
        if {c for c in text if unicodedata.category(c) in ("Cc", "Cs")} - {"\n", "\t"}:
            yield f"a control character is in {text!r}"
    for name in names:
        if {c for c in name if unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp")}:
            yield f"an invisible character is in the name {name!r}"
    if (REPLACED in "".join(texts)) is not letter.damaged:
        yield f"there is {'no' if letter.damaged else 'a'} replaced character in {texts}"


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _texts(each)


def _common(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "id"}


def _one_line(value: Any) -> Any:
    return " ".join(value.split()) if isinstance(value, str) else value
