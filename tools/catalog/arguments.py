"""The arguments of a call in our own names and forms, as far as there is only one way to read them.

What has a meaning is never dropped: an argument that cannot be placed stays, and is refused by name.
"""

import base64
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import cache
from mimetypes import guess_type
from typing import Any

from accounts.infra.foreign_text import load_json
from tools.catalog.synonyms import ANYWAY, INVERSE, NAMES, PAGES, WORDS, WRAPPERS
from tools.catalog.tool_schema import plain_members
from tools.schemas import MOST_NAMES, AttachmentGiven, Parameters, UpdateDraft

HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
NO_WORD = re.compile(r"[^a-z0-9]+")
ADDRESS_LENGTH = 100_000
LONGEST_WORD = 200
WORDS_INSIDE = re.compile(r"^text/|json|xml|yaml|toml|script|csv|sql|^message/")
# More members of one list, as more names in one object, are not read but refused as they are.
MOST_MEMBERS = 1000
NUMBER = re.compile(r"-?[0-9]{1,9}")
SPAN = re.compile(r"([0-9]{1,4}) ?d(?:ays?)?")
GERMAN_DAY = re.compile(r"([0-9]{1,2})\.([0-9]{1,2})\.([0-9]{4})\b.{0,20}", re.DOTALL)
SECONDS = re.compile(r"[0-9]{9,11}")
SWITCHES = {"true": True, "yes": True, "false": False, "no": False}
ENVELOPE = frozenset({"to", "cc", "bcc"})
END_DAYS = frozenset({"date_to", "end_date", "to_date", "until", "date_until"})  # that day included
ACCOUNTS = frozenset(NAMES["mailbox"]) - frozenset(NAMES["from"]) - {"from"}
# Wrappers whose object may be given as its JSON; a text in any other is what it says.
JSON_WRAPPERS = frozenset({"input", "parameters", "arguments", "params", "args"})
UNSET = object()


def rename(wanted: type[Parameters], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments with our names in place of their synonyms; the values stay."""
    fields = _names_of(wanted)
    renamed: dict[str, Any] = {}
    strange: list[tuple[str, Any]] = []
    for name, value in given.items():
        if name in fields:
            renamed[name] = value
        else:
            strange.append((name, value))
    for name, value in strange:
        folded = fold_name(name)
        ours = folded if folded in fields else _ours(folded, value, fields, renamed)
        if ours is None or ours in renamed:
            same = ours is not None and _same(ours, renamed[ours], value)
            renamed |= {} if same else {name: value}
        else:
            renamed[ours] = not value if folded in INVERSE and isinstance(value, bool) else value
    return renamed


def names_given(wanted: type[Parameters], given: Mapping[str, Any]) -> dict[str, str]:
    """Return the caller's own name for each parameter that was named otherwise."""
    found = {}
    for name, value in given.items():
        for ours in rename(wanted, {name: value}):
            if ours != name:
                found[ours] = name
    return found


def understand(wanted: type[Parameters], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a model in our names and forms: wrappers opened, synonyms renamed,
    texts as what they stand for, and without what is empty or happens anyway.
    """
    members = plain_members(wanted)
    opened = _open(wanted, dict(given))
    if len(opened) > MOST_NAMES:  # wrappers in wrappers hold any number
        opened = dict(given)
    opened = _name_folder(wanted, opened)
    opened = {name: value for name, value in opened.items() if not _happens_anyway(name, value)}
    opened = _take_pages(wanted, opened)
    opened = _fit_switches(wanted, opened)
    found: dict[str, Any] = {}
    for name, value in rename(wanted, opened).items():
        member = members.get(name)
        if member is None:
            if not _is_stray(name, value):
                found[name] = value
            continue
        fitted = _fit(name, value, member, keeps_empty=issubclass(wanted, UpdateDraft))
        if fitted is not UNSET:
            found[name] = fitted
    return found


def _open(wanted: type[Parameters], given: dict[str, Any], depth: int = 0) -> dict[str, Any]:
    """Return the arguments without the objects around them. An object that is one argument stays."""
    fields = _names_of(wanted)
    opened: dict[str, Any] = {}
    for name, value in given.items():
        folded = fold_name(name)
        wraps = folded in WRAPPERS and depth < 3
        inside = _as_object(value, as_json=folded in JSON_WRAPPERS) if wraps else None
        if inside is None:
            opened[name] = value
            continue
        names = {fold_name(each) for each in inside}
        if names <= {"content_type", "content"} and "content" in names:
            opened |= {"content_type": UNSET, **{fold_name(each): inside[each] for each in inside}}
            opened = {each: what for each, what in opened.items() if what is not UNSET}
        elif "id" in names and {f"{folded}_id", "message_id", "draft_id"} & fields.keys():
            opened[name] = value
        else:
            opened |= _open(wanted, inside, depth + 1)
        if len(opened) > MOST_NAMES:
            break
    return opened


def _name_folder(wanted: type[Parameters], given: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments with `mailbox` as the folder, if an account is named beside it."""
    account = {fold_name(each) for each in given} & ACCOUNTS
    if not account or "mailbox" not in given or "folder" not in _names_of(wanted):
        return given
    return {"folder" if name == "mailbox" else name: value for name, value in given.items()}


def _as_object(value: Any, *, as_json: bool) -> dict[str, Any] | None:
    """Return the object, or None; also from a text with `as_json`."""
    if as_json and isinstance(value, str) and value.lstrip().startswith("{"):
        with suppress(ValueError):
            value = load_json(value)
    return value if isinstance(value, dict) and len(value) <= MOST_NAMES else None


def _is_stray(name: str, value: Any) -> bool:
    """Return True for an unknown argument that says nothing: it is empty, or a word of the model."""
    return value in ("", None, [], {}) or ANYWAY.get(fold_name(name)) == frozenset()


def _happens_anyway(name: str, value: Any) -> bool:
    values = ANYWAY.get(fold_name(name))
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    return values is not None and str(value).lower() in values


def _take_pages(wanted: type[Parameters], given: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments with the text and its type in place of a text that is named as HTML."""
    fields = _names_of(wanted)
    text = next((each for each in ("body", "comment") if each in fields), None)
    if text is None or "body_type" not in fields:
        return given
    for name, value in given.items():
        is_page = isinstance(value, str) and value.lower() not in SWITCHES
        if fold_name(name) in PAGES and is_page and text not in given and "body_type" not in given:
            rest = {each: what for each, what in given.items() if each != name}
            return {**rest, text: value, "body_type": "html"}
    return given


def _fit_switches(wanted: type[Parameters], given: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments with true and false in place of their words, before an inverse is
    renamed; and a last day as the day before which mail is found.
    """
    fitted = {}
    for name, value in given.items():
        folded = fold_name(name)
        if folded in INVERSE and isinstance(value, str):
            value = SWITCHES.get(value.lower(), value)
        if folded in END_DAYS and "before" in _names_of(wanted) and "before" not in given:
            day = _as_day(value)
            if day is not None and day < date.max:
                name, value = "before", (day + timedelta(days=1)).isoformat()
        fitted[name] = value
    return fitted


def _ours(
    folded: str, value: Any, fields: Mapping[str, object], given: Mapping[str, Any]
) -> str | None:
    """Return our name for a synonym, or None. Of several that fit, one that was not given."""
    fitting = [name for name, others in NAMES.items() if name in fields and folded in others]
    if folded in NAMES["from"] + ("from",) and not {"body", "comment"} & fields.keys():
        fitting = [name for name in fitting if name != "mailbox"]
    if len(fitting) > 1:
        has_id = isinstance(value, dict)
        fitting = [each for each in fitting if each.endswith("_id") == has_id] or fitting
        fitting = [each for each in fitting if each not in given] or fitting
    return fitting[0] if fitting else None


def _same(name: str, one: Any, other: Any) -> bool:
    """Return True if two values of a parameter are the same mail addresses or the same value."""
    if name in ENVELOPE:
        return _as_addresses(one) == _as_addresses(other)
    return bool(one == other)


def _fit(name: str, value: Any, member: Mapping[str, Any], *, keeps_empty: bool) -> Any:
    """Return the value in the form of the parameter, or UNSET if it says nothing."""
    if value is None:
        return None if member["nullable"] else UNSET
    if value == "" and not (
        keeps_empty or member["required"] or name in ("idempotency_key", "replaces")
    ):
        return UNSET
    kinds = member["types"]
    if "array" in kinds:
        return _fit_list(name, value)
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if name == "mailbox":
        value = _address_of(value)
    elif isinstance(value, dict) and "id" in value and name.endswith("_id"):
        value = value["id"]
    words = WORDS.get(name, {})
    if str(value).lower() in words and not isinstance(value, (list, dict)):
        found = words[str(value).lower()]
        return UNSET if found is None else found
    if isinstance(value, str):
        return _fit_text(name, value, member)
    if isinstance(value, list) and name == "query" and all(isinstance(each, str) for each in value):
        return " ".join(value)
    if "integer" in kinds and isinstance(value, float) and value.is_integer():
        return int(value)
    return _fit_day(value) if member["format"] == "date" else value


def _fit_text(name: str, value: str, member: Mapping[str, Any]) -> Any:
    kinds = member["types"]
    if name != "confirm" and "boolean" in kinds:
        return SWITCHES.get(value.strip().lower(), value)
    if "integer" in kinds and "string" not in kinds and NUMBER.fullmatch(value.strip()):
        return int(value)
    if member["format"] == "date":
        return _fit_day(value)
    if name.endswith("_id"):
        return value.strip()
    choices = {each.lower(): each for each in member["enum"]}
    return choices.get(value.lower(), value)


def _fit_list(name: str, value: Any) -> Any:
    if name in ENVELOPE:
        return _as_addresses(value)
    if isinstance(value, str):
        if not value.strip():
            return []
        listed = _as_list(value)
        value = value if name == "attachments" and listed == [value] else listed
        if isinstance(value, str):
            return value  # no name of a file is a file
    value = value if isinstance(value, list) else [value]
    if len(value) > MOST_MEMBERS:
        return value
    return [_fit_file(each) for each in value] if name == "attachments" else value


def _fit_file(value: Any) -> Any:
    if not isinstance(value, dict) or len(value) > MOST_NAMES:
        return value
    kept = {
        name: each
        for name, each in value.items()
        if name in _names_of(AttachmentGiven)
        or not (_happens_anyway(name, each) or _is_stray(name, each))
    }
    file = rename(AttachmentGiven, kept)
    given = kept.get("content")
    if isinstance(given, str) and file.get("content_base64") == given and not _is_encoded(value):
        return {"text" if name == "content_base64" else name: each for name, each in file.items()}
    return file


def _is_encoded(file: Mapping[str, Any]) -> bool:
    """Return True if the content of a file is base64: it says so, or nothing else is likely.

    Many words are base64 too. If no type says that the file has none, a short text is words, unless
    it stands for other text.
    """
    given: str = file["content"]
    try:
        content = base64.b64decode(given, validate=True)
        kind = _type_of(file)
        if file.get("encoding") == "base64" or (kind and not WORDS_INSIDE.search(kind)):
            return True
        return (not kind and len(given) > LONGEST_WORD) or "\0" not in content.decode()
    except ValueError:
        return False


def _type_of(file: Mapping[str, Any]) -> str:
    """Return the type that the file gives, or that its name has; "" if neither says one."""
    given = {fold_name(name): each for name, each in file.items() if isinstance(each, str)}
    kinds = [given.get(each, "") for each in ("type", *NAMES["type"])]
    names = [given.get(each, "") for each in ("name", *NAMES["name"])]
    guessed = [guess_type(each[-64:], strict=False)[0] or "" for each in names]
    return next((each.lower() for each in (*kinds, *guessed) if "/" in each), "")


def _as_addresses(value: Any) -> list[Any]:
    if isinstance(value, str):
        listed = _as_list(value.strip()) if value.strip() else []
        if len(value) <= ADDRESS_LENGTH and listed == [value.strip()]:
            listed = [each for each in _split_addresses(value) if each]
    else:
        listed = value if isinstance(value, list) else [value]
    if len(listed) > MOST_MEMBERS:
        return listed
    return [_as_recipient(each) for each in listed]


def _split_addresses(value: str) -> list[str]:
    parts: list[list[str]] = [[]]
    is_quoted = False
    for letter in value:
        is_quoted ^= letter == '"'
        if letter in ",;" and not is_quoted:
            parts.append([])
        else:
            parts[-1].append(letter)
    return ["".join(part).strip() for part in parts]


def _as_recipient(value: Any) -> Any:
    if isinstance(value, dict) and len(value) <= MOST_NAMES:
        members = {fold_name(name): each for name, each in value.items()}
        if isinstance(members.get("email_address"), dict):
            return _as_recipient(members["email_address"])
        address = members.get("address") or members.get("email")
        if set(members) <= {"address", "email", "name"} and isinstance(address, str):
            return f"{members['name']} <{address}>" if members.get("name") else address
        return value
    return value.removeprefix("mailto:") if isinstance(value, str) else value


def _address_of(value: Any) -> Any:
    text = _as_recipient(value)
    if isinstance(text, str) and text.endswith(">"):
        return text.removesuffix(">").rpartition("<")[2]
    return text


def _as_list(value: str) -> list[Any]:
    if value.startswith("["):
        with suppress(ValueError):
            listed = load_json(value)
            if isinstance(listed, list):
                return listed
    return [value]


def _fit_day(value: Any) -> Any:
    day = _as_day(value)
    return value if day is None else day.isoformat()


def _as_day(value: Any) -> date | None:
    """Return the day of a date in a form that can be read in one way only, or None."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or len(value) > 60:
        return None
    text, today = value.strip(), datetime.now(UTC).date()
    if text.lower() in ("today", "yesterday"):
        return today - timedelta(days=text.lower() == "yesterday")
    if span := SPAN.fullmatch(text.lower()):
        return today - timedelta(days=int(span[1]))
    readers: Iterable[Callable[[], date]] = (
        lambda: datetime.fromisoformat(text).date(),
        lambda: _german_day(text),
        lambda: (
            datetime.fromtimestamp(int(text), UTC).date() if SECONDS.fullmatch(text) else _no_day()
        ),
        lambda: parsedate_to_datetime(text).date() if text[:1].isalpha() else _no_day(),
    )
    for read in readers:
        with suppress(ValueError, TypeError, OverflowError):
            return read()
    return None


def _german_day(text: str) -> date:
    found = GERMAN_DAY.fullmatch(text)
    return date(int(found[3]), int(found[2]), int(found[1])) if found else _no_day()


def _no_day() -> date:
    raise ValueError


@cache
def _names_of(wanted: type[Parameters]) -> Mapping[str, object]:
    return {info.alias or name: info for name, info in wanted.model_fields.items()}


def fold_name(name: str) -> str:
    """Return a name in snake case: `messageId`, `message-id` and `$top` are what they look like."""
    return NO_WORD.sub("_", HUMP.sub("_", name[:64]).lower()).strip("_")
