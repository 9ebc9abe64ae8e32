"""The recipients of a mail as they were understood: each address once, with its name."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tools.mail.text.addresses import display_name, split_named


@dataclass(frozen=True, kw_only=True)
class Understood:
    """Bare addresses, the names of those in To and Cc by address in lower case, and sentences for the
    caller.
    """

    to: tuple[str, ...]
    cc: tuple[str, ...]
    bcc: tuple[str, ...]
    names: Mapping[str, str]
    notes: tuple[str, ...] = ()


def understand(
    *,
    to: Iterable[str] = (),
    cc: Iterable[str] = (),
    bcc: Iterable[str] = (),
    names: Mapping[str, str] | None = None,
) -> Understood:
    """Return each address once, in the first list that has it; `names` are known before.

    The notes name the addresses that were given more than once, and those whose names are not sent.
    """
    lists: dict[str, list[str]] = {}
    place: dict[str, str] = {}
    named = dict(names or {})
    notes: list[str] = []
    for header, given in (("to", to), ("cc", cc), ("bcc", bcc)):
        lists[header] = []
        for name, address in map(split_named, given):
            first = place.setdefault(address.lower(), header)
            if address.lower() not in {each.lower() for each in lists[first]}:
                lists[header].append(address)
            else:
                notes.append(f"{address} was given more than once. It stays in {first} only.")
                continue
            if name and header == "bcc":
                notes.append(f"The name of {address} is not sent, because it is in bcc.")
            elif name and not display_name(name):
                notes.append(f"The name of {address} is not sent, because it is too long.")
            elif name:
                named[address.lower()] = name
    visible = [each.lower() for each in (*lists["to"], *lists["cc"])]
    return Understood(
        to=tuple(lists["to"]),
        cc=tuple(lists["cc"]),
        bcc=tuple(lists["bcc"]),
        names={each: named[each] for each in visible if each in named},
        notes=tuple(dict.fromkeys(notes)),
    )
