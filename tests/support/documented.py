"""A check of each answer of REST against the OpenAPI document: status, type, headers, members.

Messages of webhooks are compared with their section of it.

The document lets answers grow, so that clients accept a newer server. Here a member that it does
not name is an error.
"""

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import jsonschema_rs
from django.http.response import HttpResponseBase

from tools.surfaces.openapi.document import build_document

PROBLEM = "application/problem+json"


def check_answer(method: str, path: str, answer: HttpResponseBase) -> None:
    """Raise AssertionError if the document does not promise this answer."""
    operation = find_operation(method, path.partition("?")[0])
    if operation is None:
        documents = path.endswith(("/docs", "/openapi.json"))
        assert documents or answer.status_code >= 400, "the document lacks this address"
        return
    promised = operation["responses"].get(str(answer.status_code))
    assert promised, f"{operation['operationId']} does not promise {answer.status_code}"
    promised = resolve(promised)
    for name, header in promised.get("headers", {}).items():
        schema = resolve(header)["schema"]
        if name in answer and schema["type"] == "string":
            jsonschema_rs.validate(schema, answer[name])
    if "content" not in promised:
        return
    kind = answer["Content-Type"].partition(";")[0]
    assert kind in promised["content"], (kind, list(promised["content"]))
    strict_validator(json.dumps(promised["content"][kind]["schema"])).validate(
        json.loads(b"".join(answer))
    )


def check_message(message: dict[str, Any]) -> None:
    """Raise AssertionError or a ValidationError if the document does not promise this message."""
    described = build_document()["webhooks"]
    kind = str(message["type"])
    name = kind if kind in described else kind.partition(".")[0]
    assert name in described, f"the document lacks the message {kind}"
    body = described[name]["post"]["requestBody"]["content"]["application/json"]
    strict_validator(json.dumps(body["schema"])).validate(message)


def find_operation(method: str, path: str) -> Any:
    """Return the operation at an address, or None."""
    fixed = build_document()["paths"].get(path)
    if fixed is None:
        fixed = next((item for shape, item in _shapes() if shape.fullmatch(path)), {})
    return fixed.get(method)


def resolve(member: dict[str, Any]) -> dict[str, Any]:
    """Follow a reference into the components."""
    found: Any = build_document()
    for name in member.get("$ref", "").split("/")[1:]:
        found = found[name]
    return found if "$ref" in member else member


@cache
def strict_validator(schema: str) -> Any:
    """Return a validator that allows no member without a description."""
    components = json.loads(json.dumps(build_document()["components"]["schemas"]))
    for each in components.values():
        if each.get("type") == "object":
            each.setdefault("additionalProperties", False)
    whole = {**json.loads(schema), "components": {"schemas": components}}
    return jsonschema_rs.Draft202012Validator(whole, validate_formats=True)


@cache
def _shapes() -> list[tuple[re.Pattern[str], Any]]:
    return list(_each_shape())


def _each_shape() -> Iterator[tuple[re.Pattern[str], Any]]:
    for path, item in build_document()["paths"].items():
        if "{" in path:
            yield re.compile(re.sub(r"\{\w+\}", "[^/]+", path)), item
