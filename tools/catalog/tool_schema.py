"""The description of a tool for a model: its parameters in few bytes, and hints that match its
effect.

A model reads it in every conversation, so each byte is paid for many times. It is a description and
no check: the parameters' own class judges the arguments, and is stricter.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

from tools.catalog.entries import Tool
from tools.schemas import Parameters, SendingParameters

# Keywords that help to fill in a parameter. The others (titles, lengths, additionalProperties) are
# only for validation.
KEYWORDS = ("type", "description", "enum", "const", "maximum", "items", "anyOf", "oneOf")
# Seldom used, so the server's instructions explain them once.
EXPLAINED_ONCE = frozenset({"follow_up", "unless_answered", "answered"})
# Accepted, but not shown: other names of a parameter, and parameters for programs, which read the
# documents.
NOT_SHOWN = frozenset(
    {
        "user_id",
        "uid",
        "metadata",
        "callback_url",
        "idempotency_key",
        "save_to_sent_items",
        "label_ids",
    }
)
# Of tools that propose only now and then.
NOT_SHOWN_OF_OTHERS = frozenset({"reason"})
# An IMAP UID for a message id, and one address for a list of one: the first type is shown.
SYNONYMOUS_TYPES = (["string", "integer"], ["array", "string"])
FAR_AWAY = 1000  # a limit that nobody reaches by accident
MANY_CHOICES = 6  # from this number on, only the answer to a wrong one lists them


@cache
def published_parameters(parameters: type[Parameters]) -> Mapping[str, Any]:
    """Return the JSON Schema of a tool's parameters, without `$defs`, with optional fields as plain
    types.
    """
    schema = parameters.model_json_schema()
    sends = issubclass(parameters, SendingParameters)
    left_out = NOT_SHOWN if sends else NOT_SHOWN | NOT_SHOWN_OF_OTHERS
    members = {
        name: {**member, "description": None} if name in EXPLAINED_ONCE else member
        for name, member in schema.get("properties", {}).items()
        if name not in left_out
    }
    definitions = schema.get("$defs", {})
    published = {
        "type": "object",
        "properties": {name: _plain(one, definitions) for name, one in members.items()},
    }
    return published | ({"required": schema["required"]} if "required" in schema else {})


@cache
def plain_members(parameters: type[Parameters]) -> Mapping[str, Mapping[str, Any]]:
    """Return what a value of each parameter may be: its types, choices and format, and whether it is
    required or may be null.
    """
    schema = parameters.model_json_schema()
    definitions, required = schema.get("$defs", {}), schema.get("required", ())
    found = {}
    for name, member in schema.get("properties", {}).items():
        forms = [_resolve(each, definitions) for each in member.get("anyOf", [member])]
        found[name] = {
            "types": frozenset(form.get("type") for form in forms),
            "enum": tuple(choice for form in forms for choice in form.get("enum", ())),
            "format": next((form["format"] for form in forms if "format" in form), ""),
            "nullable": any(form.get("type") == "null" for form in forms),
            "required": name in required,
        }
    return found


def _resolve(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Mapping[str, Any]:
    if "$ref" in schema:
        return _resolve(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    return schema


def published_hints(tool: Tool) -> dict[str, bool]:
    """Return the annotations that differ from the protocol's defaults.

    The protocol assumes the worst: not read-only, destructive, not idempotent, in an open world.
    """
    if tool.read_only:
        hints = {"readOnlyHint": True}
    else:
        hints = {} if tool.destructive else {"destructiveHint": False}
        if tool.idempotent:
            hints["idempotentHint"] = True
    if not tool.open_world:
        hints["openWorldHint"] = False
    return hints


def _plain(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """Return one schema with its references resolved and `or null` removed."""
    if "$ref" in schema:
        # The description beside the reference is about this parameter; the one inside is about our
        # class.
        inside = {**definitions[schema["$ref"].rpartition("/")[2]], "description": None}
        return _plain(
            {**inside, **{name: value for name, value in schema.items() if name != "$ref"}},
            definitions,
        )
    for union in ("anyOf", "oneOf"):
        choices = [choice for choice in schema.get(union, ()) if choice.get("type") != "null"]
        if [choice.get("type") for choice in choices] in SYNONYMOUS_TYPES:
            choices = choices[:1]
        if len(choices) == 1:
            beside = {name: value for name, value in schema.items() if name != union}
            return _plain({**choices[0], **beside}, definitions)
        if choices:
            schema = {**schema, union: [_plain(choice, definitions) for choice in choices]}
    plain = {name: schema[name] for name in KEYWORDS if schema.get(name) is not None}
    if len(plain.get("enum", ())) >= MANY_CHOICES:
        del plain["enum"]
    if plain.get("maximum", 0) >= FAR_AWAY:
        del plain["maximum"]
    if schema.get("default") is True:
        plain["default"] = (
            # a switch that is on by default; every other parameter may simply be left out
            True
        )
    if "items" in plain:
        plain["items"] = _plain(plain["items"], definitions)
    return plain
