"""JSON from a program, with limits: a small body must not become a large or deep object."""

import re
from itertools import islice
from typing import Any

from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest

from accounts.infra.foreign_text import BROKEN, find_broken, load_json
from accounts.infra.problems import MOST_ERRORS, FieldError, Problem
from accounts.infra.texts import translatable

# In an ASGI scope: an asynchronous function that reads the body of a person, given by id, within its
# limits and returns a `receive` for it.
READ_BODY = "mailhub.read_body"
MAX_DEPTH = 50
# The types that programs declare for JSON. The second line has the types that curl and `fetch` declare
# if the program names none.
JSON_TYPES = frozenset(
    {
        "application/json", "text/json", "",
        "text/plain", "application/octet-stream", "application/x-www-form-urlencoded",
    }
)  # fmt: skip
# Lists, objects, members and items, counted by the characters between them. So a string of 100,000
# commas counts, too, but is below the limit.
MAX_PARTS = 300_000
# A string, or a bracket. Possessive quantifiers make the time linear in the length.
_STRING_OR_BRACKET = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[\[{\]}]', re.DOTALL)


def read_json(request: HttpRequest) -> dict[str, Any]:
    """Return the JSON object in the body, or an empty one; raise Problem 400, 413 or 415."""
    declared = (request.content_type or "").lower()
    if declared not in JSON_TYPES and not declared.endswith("+json"):
        raise Problem("unsupported_media_type", "Send the body as application/json.")
    try:
        content = request.body
    except RequestDataTooBig:
        raise Problem("too_large", "The request body is too large.") from None
    document = parse_json(content or b"{}")
    if not isinstance(document, dict):
        raise Problem("invalid_input", "The request body must be a JSON object.", status=400)
    return document


def parse_json(content: bytes) -> Any:
    """Return the parsed JSON in UTF-8 (RFC 8259, 8.1); raise Problem 400 if it is invalid, too deep or
    too large, and 422 if a text in it is broken.
    """
    check_json(content)
    try:
        document = load_json(content.decode("utf-8-sig"))
    except ValueError:
        raise Problem("invalid_input", "The request body is not JSON.", status=400) from None
    if b"\\u" in content:  # only an escape can be such a letter
        check_texts(document)
    return document


def check_texts(document: Any) -> None:
    """Raise Problem 422 with the first broken texts in parsed JSON."""
    errors = tuple(
        FieldError(field=path, message=BROKEN)
        for path in islice(find_broken(document), MOST_ERRORS)
    )
    if errors:
        raise Problem("invalid_input", "Some parameters are not valid.", errors=errors)


def check_json(content: bytes) -> None:
    """Raise Problem 400 if parsing would make too many objects or nest too deep; parse nothing."""
    brackets = content.count(b"[") + content.count(b"{")
    if brackets + content.count(b",") + content.count(b":") > MAX_PARTS:
        raise Problem("invalid_input", "The request body has too many values.", status=400)
    if brackets > MAX_DEPTH and _depth(content) > MAX_DEPTH:
        too_deep = translatable(
            "The request body is nested deeper than %(levels)s levels.", levels=MAX_DEPTH
        )
        raise Problem("invalid_input", too_deep, status=400)


def _depth(content: bytes) -> int:
    depth = deepest = 0
    for found in _STRING_OR_BRACKET.finditer(content):
        sign = content[found.start()]
        if sign in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif sign in b"]}":
            depth -= 1
    return deepest
