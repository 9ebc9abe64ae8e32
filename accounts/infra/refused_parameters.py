"""The words for parameters that do not fit: what is wrong, what is allowed, and an example.

The library's own words are about its types. A text follows the name of the field.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from accounts.infra.nearest import find_nearest

# By type of error: the text, with values of the error.
LIMITS = {
    "too_long": "must have at most {max_length} entries",
    "string_too_short": "needs {min_length} or more characters",
    "string_too_long": "must have at most {max_length} characters",
    "string_pattern_mismatch": "must match the pattern {pattern}",
    "less_than_equal": "must be at most {le}",
    "greater_than_equal": "must be at least {ge}",
}
# By type of error, or by the part before its first "_": the text, which an example follows.
TEXTS = {
    "missing": "is required",
    "too_short": "needs {min_length} or more entries",
    "bool": "must be true or false",
    "int": "must be a whole number",
    "string": "must be a string",
    "list": "must be a list",
    "dict": "must be an object",
    "model": "must be an object",
    "date": "must be a date",
    "datetime": "must be a date and time with a time zone",
    "timezone": "must be a date and time with a time zone",
}
# For a field that has no example of its own.
EXAMPLES = {
    "int": "10",
    "string": '"text"',
    "list": '["one", "two"]',
    "dict": '{"name": "value"}',
    "model": '{"name": "value"}',
    "date": "2026-11-26",
    "datetime": "2026-11-26T09:00:00+01:00",
    "timezone": "2026-11-26T09:00:00+01:00",
}


def explain(
    item: Mapping[str, Any], wanted: type[BaseModel], hints: Mapping[str, str] | None = None
) -> str:
    """Return the text for one error of pydantic about the parameters `wanted`. It never has the
    given value. `hints` say what to do instead of an unknown one, by its name.
    """
    kind, context = item["type"], item.get("ctx", {})
    family = kind.partition("_")[0]
    fields = _fields_of(_find_model(wanted, item["loc"][:-1]))
    if kind == "extra_forbidden":
        hint = (hints or {}).get(str(item["loc"][-1]))
        near = f" ({hint})" if hint else _near(item["loc"][-1], fields)
        return f"is unknown{near}; allowed: {', '.join(fields) or 'none'}"
    if kind in ("literal_error", "enum"):
        choices = re.findall(r"'([^']*)'", context["expected"])
        return f"must be one of {', '.join(choices)}{_near(item['input'], choices)}"
    if kind in LIMITS:
        return LIMITS[kind].format(**context)
    text = TEXTS.get(kind) or TEXTS.get(family)
    if text is None:
        return str(item["msg"]).removeprefix("Value error, ")
    field = fields.get(str(item["loc"][-1]))
    own = field.examples if field else None
    hint = (hints or {}).get(str(item["loc"][-1]))
    if kind == "missing" and hint:
        return f"is required: {hint}"
    kind_of = "string" if kind == "missing" and field and field.annotation is str else family
    example = json.dumps(own[0]) if own else EXAMPLES.get(kind_of)
    return text.format(**context) + (f", such as {example}" if example else "")


def _fields_of(model: type[BaseModel]) -> dict[str, FieldInfo]:
    return {info.alias or name: info for name, info in model.model_fields.items()}


def _find_model(wanted: type[BaseModel], path: Iterable[str | int]) -> type[BaseModel]:
    """Return the model whose member is refused; it may be a member of another one, or in a list."""
    for part in path:
        field = _fields_of(wanted).get(str(part))
        wanted = next(_models_in(field.annotation), wanted) if field else wanted
    return wanted


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models_in(part)


def _near(given: object, allowed: Iterable[str]) -> str:
    found = find_nearest(given, allowed)
    return f" (did you mean {found}?)" if found else ""
