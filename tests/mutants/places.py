"""Finds a piece of code however the formatter has broken its lines. Pure."""

import re

TOKEN = re.compile(r"\s+|\w+|[^\w\s]")
OPENING, CLOSING = "([{", ")]}"
MAY_BREAK = (*OPENING, *CLOSING, ",", ".")


def find(source: str, code: str) -> list[tuple[int, int]]:
    """Return the begin and end of each place where the code is."""
    if code in source:
        return [match.span() for match in re.finditer(re.escape(code), source)]
    return [match.span() for match in _pattern(code).finditer(source)]


def replace(source: str, old: str, new: str) -> str:
    """Return the source with other code in the one place of the old; raise ValueError if there is
    not exactly one.
    """
    places = find(source, old)
    if len(places) != 1:
        raise ValueError(f"{len(places)} times: {old}")
    ((begin, end),) = places
    if old not in source:  # the place was found without the space around the old code
        new = new.strip()
    return source[:begin] + new + source[end:]


def _pattern(code: str) -> re.Pattern[str]:
    tokens = TOKEN.findall(code.strip())
    parts: list[str] = []
    for index, token in enumerate(tokens):
        before = tokens[index - 1] if index else ""
        if token.isspace():
            parts.append(r"\s*" if _breaks(before) or _breaks(tokens[index + 1]) else r"\s+")
            continue
        if before and not before.isspace() and (_breaks(before) or _breaks(token)):
            parts.append(r"\s*")
        # A list that takes several lines has a comma after its last member.
        parts.append(
            (r"(?:,\s*)?" if token in CLOSING and before != "," else "") + re.escape(token)
        )
    return re.compile("".join(parts))


def _breaks(token: str) -> bool:
    return token in MAY_BREAK
