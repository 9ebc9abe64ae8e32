"""The OpenAPI document as rows for the page on which people read it.

A text is a list of pieces, text and code in turns, because the document marks code with backticks.
"""

import json
import shlex
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any
from urllib.parse import urlencode

from tools.surfaces.openapi.document import build_document

Node = Mapping[str, Any]
JSON, PROBLEM = "application/json", "application/problem+json"


@cache
def list_subjects(base: str) -> list[dict[str, Any]]:
    """Return the operations by subject. `base` is the address of this server in their examples."""
    document = build_document()
    found: dict[str, list[dict[str, Any]]] = {tag["name"]: [] for tag in document["tags"]}
    for path, item in document["paths"].items():
        for method, operation in item.items():
            found[operation["tags"][-1]].append(_describe(base, method, path, operation))
    return [
        {"name": tag["name"], "title": tag["description"], "operations": found[tag["name"]]}
        for tag in document["tags"]
    ]


def _describe(base: str, method: str, path: str, operation: Node) -> dict[str, Any]:
    name, summary = operation["operationId"], operation["summary"]
    parameters = [_follow(each) for each in operation["parameters"]]
    body = operation.get("requestBody", {}).get("content", {})
    responses = {status: _follow(each) for status, each in operation["responses"].items()}
    rows = [
        *(_row(each["name"], each["in"], each["schema"], each) for each in parameters),
        *(row for content in body.values() for row in _members(content["schema"])),
    ]
    return {
        "id": name,
        "method": method.upper(),
        "path": path,
        "about": _pieces(
            operation["description"]
            if summary == name
            else f"{summary}. {operation['description']}"
        ),
        "parameters": sorted(rows, key=lambda row: not row["required"]),
        "request": _curl(base + path, method, parameters, body),
        "answers": _answers(responses),
        "errors": [
            {
                "status": status,
                "code": code,
                "happened": _pieces(each["value"]["detail"]),
                "to_do": _pieces(each["summary"]),
            }
            for status, answer in responses.items()
            for code, each in _examples(answer, PROBLEM).items()
        ],
    }


def _follow(node: Node) -> Node:
    found: Any = build_document() if "$ref" in node else node
    for name in node.get("$ref", "").split("/")[1:]:
        found = found[name]
    return dict(found)


def _pieces(text: str) -> list[str]:
    return text.split("`") if text else []


def _row(name: str, place: str, schema: Node, described: Node) -> dict[str, Any]:
    default = f"Default: {schema['default']}." if "default" in schema else ""
    return {
        "name": name,
        "place": place,
        "type": _type(schema),
        "required": described.get("required", False),
        "about": _pieces(". ".join(filter(None, [described.get("description"), default]))),
    }


def _members(schema: Node, within: str = "") -> Iterator[dict[str, Any]]:
    schema = _follow(schema)
    for name, member in schema.get("properties", {}).items():
        required = name in schema.get("required", ())
        yield _row(within + name, "body", member, {**member, "required": required})
        yield from _members(member.get("items", {}), f"{within}{name}[].")


def _type(schema: Node) -> str:
    schema = _follow(schema)
    if "anyOf" in schema:
        return " or ".join(_type(each) for each in schema["anyOf"] if each.get("type") != "null")
    if "enum" in schema:
        return ", ".join(schema["enum"])
    if schema["type"] == "array":
        return f"list[{_type(schema['items'])}]"
    return str(schema.get("format", schema["type"]))


def _curl(address: str, method: str, parameters: list[Node], body: Node) -> str:
    """Return lines for a shell, with the examples of the document as values."""
    usual = {each["name"]: each for each in parameters if "example" in each}
    query = {name: each["example"] for name, each in usual.items() if each["in"] == "query"}
    for name, each in usual.items():
        address = address.replace(f"{{{name}}}", str(each["example"]))
    address = shlex.quote(f"{address}?{urlencode(query)}" if query else address)
    lines = [f"curl -X {method.upper()} {address}", '-H "Authorization: Bearer $MAILHUB_TOKEN"']
    for example in _examples({"content": body}, JSON).values():
        lines += [f"-H 'Content-Type: {JSON}'", f"-d {shlex.quote(_json(example['value']))}"]
    if "multipart/form-data" in body:
        lines = [f"echo 'The plan' > plan.txt\n{lines[0]}", *lines[1:], "-F file=@plan.txt"]
    return " \\\n  ".join(lines)


def _answers(responses: Mapping[str, Node]) -> list[dict[str, Any]]:
    """Return the successes. A type that two of them have is only shown with the last one."""
    last = {name: status for status, each in responses.items() for name in _examples(each, JSON)}
    return [
        {
            "status": status,
            "about": _pieces(answer["description"]),
            "examples": [
                _json(each["value"])
                for name, each in _examples(answer, JSON).items()
                if last[name] == status
            ],
        }
        for status, answer in responses.items()
        if PROBLEM not in answer.get("content", {})
    ]


def _examples(answer: Node, kind: str) -> Node:
    found: Node = answer.get("content", {}).get(kind, {}).get("examples", {})
    return found


def _json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
