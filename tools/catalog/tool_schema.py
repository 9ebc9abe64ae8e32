"""What a model is shown of a tool: its parameters in few bytes, and hints that are true to its
effect.

A model reads this in every conversation, so each byte is paid for again and again. It is a
description, no check: what comes in is judged by the parameters' own class, which is stricter.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

from tools.catalog.entries import Effect, Tool
from tools.schemas import Parameters

# What helps to fill in a parameter. All else (titles, lengths, additionalProperties) stays with the
# validation.
KEYWORDS = ("type", "description", "enum", "const", "maximum", "items", "anyOf", "oneOf")
# Parameters of several tools, explained once for all of them where the server introduces itself.
EXPLAINED_ONCE = frozenset(
    {
        "mailbox",
        "folder",
        "unread",
        "attachments",
        "in_reply_to",
        "confirm",
        "idempotency_key",
        "replaces",
    }
)
# Other names of what another parameter says: accepted, and not shown.
SYNONYMS = frozenset({"user_id", "uid"})
FAR_AWAY = 1000  # a bound that nobody meets by accident
MANY_CHOICES = 6  # from here on the answer to a wrong one is a better place to list them

PROTOCOL_DEFAULTS = {
    "readOnlyHint": False,
    "destructiveHint": True,
    "idempotentHint": False,
    "openWorldHint": True,
}
# Proposing only adds: a row for a person to look at, who alone can let the mail out; so it destroys
# nothing. It is not called idempotent, because it is that with an idempotency key alone. It stays
# in the open world: the mail, once approved, leaves. A draft, a command or an effect yet to come is
# called nothing: the protocol assumes the worst.
HINTS = {Effect.READ: {"readOnlyHint": True}, Effect.SEND: {"destructiveHint": False}}
# Where the effect of the catalogue, which is about what a token may do, says other or less than the
# truth.
HINTS_OF_TOOL = {
    "cancel_action": {"readOnlyHint": False, "idempotentHint": True},
    "create_draft": {"destructiveHint": False},
    "draft_reply": {"destructiveHint": False},
    "list_drafts": {"readOnlyHint": True},
    "delete_draft": {"idempotentHint": True},
}


@cache
def published_parameters(parameters: type[Parameters]) -> Mapping[str, Any]:
    """The JSON Schema of a tool's parameters, without `$defs` and with optional fields as plain
    types.
    """
    schema = parameters.model_json_schema()
    members = {
        name: {**member, "description": None} if name in EXPLAINED_ONCE else member
        for name, member in schema.get("properties", {}).items()
        if name not in SYNONYMS
    }
    definitions = schema.get("$defs", {})
    published = {
        "type": "object",
        "properties": {name: _plain(one, definitions) for name, one in members.items()},
    }
    return published | ({"required": schema["required"]} if "required" in schema else {})


def published_hints(tool: Tool) -> dict[str, bool]:
    """The annotations that differ from what the protocol assumes."""
    true = {**HINTS.get(tool.effect, {}), **HINTS_OF_TOOL.get(tool.name, {})}
    if tool.effect is Effect.READ and tool.need is None:
        true["openWorldHint"] = False  # no mailbox, so nothing beyond our own database
    return {hint: value for hint, value in true.items() if PROTOCOL_DEFAULTS[hint] != value}


def _plain(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """One schema with references put in their place and `or null` taken away."""
    if "$ref" in schema:
        # Beside the reference stands what was said about this parameter; inside, a class says what
        # it is to us.
        inside = {**definitions[schema["$ref"].rpartition("/")[2]], "description": None}
        return _plain(
            {**inside, **{name: value for name, value in schema.items() if name != "$ref"}},
            definitions,
        )
    for union in ("anyOf", "oneOf"):
        choices = [choice for choice in schema.get(union, ()) if choice.get("type") != "null"]
        if [choice.get("type") for choice in choices] == ["string", "integer"]:
            choices = choices[:1]  # the number is a synonym too: an IMAP UID for a message id
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
            # a switch that is on by itself; any other parameter may be left out without a thought
            True
        )
    if "items" in plain:
        plain["items"] = _plain(plain["items"], definitions)
    return plain
