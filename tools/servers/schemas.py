"""JSON schemas of foreign tools in the form that a model gets. Pure."""

import json
from collections.abc import Mapping
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.validators import validator_for

SCHEMA_CHARACTERS = 8000
MOST_LEVELS = 40
DEFINITIONS = ("$defs", "definitions")


def expand(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema with its definitions in place of each `$ref`; raise ValueError if no model
    can read it.

    Definitions that name each other twice double with each level, so the length is counted on the
    way. Inside itself a definition becomes `{}`, which allows everything. Regular expressions are not
    read: compiling those of a foreign server can take seconds.
    """
    root = {name: value for name, value in schema.items() if name not in DEFINITIONS}
    expanded: dict[str, Any] = _Expansion(schema).expand(root, ("#",), MOST_LEVELS)
    if len(json.dumps(expanded, allow_nan=False)) > SCHEMA_CHARACTERS:
        raise ValueError("too long")
    dialect = validator_for(expanded, default=Draft202012Validator)
    if not dialect(dialect.META_SCHEMA).is_valid(expanded):
        raise ValueError("not a schema")
    if not isinstance(expanded.get("properties", {}), dict):
        raise ValueError("not an object's schema")
    return expanded


class _Expansion:
    """One expansion, which ends after SCHEMA_CHARACTERS."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = schema
        self._left = SCHEMA_CHARACTERS

    def expand(self, value: Any, inside: tuple[str, ...], levels: int) -> Any:
        """Return a part of the schema; `inside` are the references that lead to it."""
        self._spend(len(value) if isinstance(value, str) else 1)
        if not isinstance(value, dict | list):
            return value
        if not levels:
            raise ValueError("too deep")
        if isinstance(value, list):
            return [self.expand(each, inside, levels - 1) for each in value]
        found = {}
        if "$ref" in value and (path := value["$ref"]) not in inside:
            found = self.expand(self._find(path), (*inside, path), levels - 1)
        for name, part in value.items():
            if name != "$ref":
                self._spend(len(name))
                found[name] = self.expand(part, inside, levels - 1)
        return found

    def _find(self, path: Any) -> dict[str, Any]:
        if not isinstance(path, str) or not path.startswith("#/"):
            raise ValueError("not a reference into the schema")
        found: Any = self._schema
        for step in path.split("/")[1:]:
            try:
                found = (
                    found[int(step)]
                    if isinstance(found, list)
                    else found[step.replace("~1", "/").replace("~0", "~")]
                )
            except (LookupError, TypeError):
                raise ValueError("not a reference into the schema") from None
        if not isinstance(found, dict):
            raise ValueError("not a reference to a schema")
        return found

    def _spend(self, characters: int) -> None:
        self._left -= characters
        if self._left < 0:
            raise ValueError("too long")
