"""The OpenAPI 3.1 document, from which programs generate their clients."""

import json
from functools import cache
from typing import Any

from django.utils import translation
from pydantic import TypeAdapter

from accounts.models import SCOPES
from tools.answers import EXAMPLES, ID, ProblemDocument
from tools.schemas import MAX_ATTACHMENT_BYTES, Parameters
from tools.surfaces.openapi import examples, messages
from tools.surfaces.openapi.operations import (
    API,
    EVERYWHERE,
    SUBJECTS,
    Answered,
    Operation,
    operations,
)
from tools.surfaces.openapi.problems import PROBLEMS, describe_problems

SCHEMAS = "#/components/schemas/"
ABOUT = (
    "The gate between programs and mailboxes. A program proposes, and a person decides: no call "
    "approves. Errors are problem documents (RFC 9457)."
)
WITH_RETRY_AFTER = ("429", "503")
HEADERS: dict[str, dict[str, Any]] = {
    "ETag": {"description": "the version of this answer", "schema": {"type": "string"}},
    "Location": {
        "description": "where to ask for the action",
        "schema": {"type": "string", "format": "uri-reference"},
    },
    "Retry-After": {
        "description": "seconds to wait before the next request",
        "schema": {"type": "integer", "minimum": 0},
    },
    "Idempotency-Replayed": {
        "description": "`true` if the key led to this result before",
        "schema": {"type": "string", "const": "true"},
    },
    "Preference-Applied": {
        "description": "`wait=SECONDS` if `Prefer` was followed",
        "schema": {"type": "string"},
    },
    "RateLimit": {
        "description": "what is left of each quota, in r, for t seconds",
        "schema": {"type": "string"},
        "example": '"requests";r=11998;t=41',
    },
    "RateLimit-Policy": {
        "description": "the quotas that the request used "
        "(draft-ietf-httpapi-ratelimit-headers): q in w seconds",
        "schema": {"type": "string"},
        "example": '"requests";q=12000;w=60',
    },
    "X-Request-ID": {
        "description": "the id of the request in the logs",
        "schema": {"type": "string"},
    },
    "WWW-Authenticate": {
        "description": "where to ask for access, and for which scope",
        "schema": {"type": "string"},
    },
}
ON_EVERY_ANSWER = ("RateLimit", "RateLimit-Policy", "X-Request-ID")


@cache
def build_document() -> dict[str, Any]:
    """Return the document. It is the same for every caller."""
    found = operations()
    types = _types(found)
    references, defined = TypeAdapter.json_schemas(
        [(name, "validation", TypeAdapter(each)) for name, each in types.items()],
        ref_template=SCHEMAS + "{model}",
    )
    named = {id(each): references[name, "validation"] for name, each in types.items()}
    paths: dict[str, dict[str, Any]] = {}
    for each in found:
        paths.setdefault(API + each.path, {})[each.method] = _operation(each, named)
    return {
        "openapi": "3.1.0",
        "info": {"title": "mailhub", "version": "1", "description": ABOUT},
        "servers": [{"url": "/", "description": "this server"}],
        "security": [{"bearer": []}, {"key": []}, {"oauth": []}],
        "tags": [{"name": name, "description": about} for name, about in SUBJECTS.items()],
        "paths": paths,
        "webhooks": messages.describe_webhooks(named),
        "components": {
            "schemas": {
                name: _without_defaults(schema) for name, schema in sorted(defined["$defs"].items())
            },
            "responses": {name: _problem(name) for name in PROBLEMS},
            "parameters": {
                "IdempotencyKey": _IDEMPOTENCY_KEY,
                "IfNoneMatch": _IF_NONE_MATCH,
                "Prefer": _PREFER,
            },
            "headers": HEADERS,
            "securitySchemes": {
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "`Authorization: Bearer mh_…`",
                },
                "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
                "oauth": _OAUTH,
            },
        },
    }


with translation.override("en"):  # like every answer to a program
    _SCOPES = {name: str(described) for name, described in SCOPES.items()}
# The addresses are relative, because a proxy may give this server another name.
_OAUTH = {
    "type": "oauth2",
    "description": "a person connects the program; PKCE is required",
    "flows": {
        "authorizationCode": {
            "authorizationUrl": "/oauth/authorize",
            "tokenUrl": "/oauth/token",
            "refreshUrl": "/oauth/token",
            "scopes": _SCOPES,
        }
    },
}
_IDEMPOTENCY_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "the same key and request lead to the same result; "
    "another request with the key is refused",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[ -~]+$"},
}
_PREFER = {
    "name": "Prefer",
    "in": "header",
    "description": "`wait=SECONDS` waits like the parameter `wait` (RFC 7240)",
    "schema": {"type": "string"},
    "example": "wait=30",
}
_IF_NONE_MATCH = {
    "name": "If-None-Match",
    "in": "header",
    "description": "the `ETag` of an earlier answer",
    "schema": {"type": "string"},
}


def _types(found: list[Operation]) -> dict[str, Any]:
    bodies = [each.body for each in found if each.body is not None]
    answered = [each for one in found for answer in one.answers for each in answer.types]
    every = [ProblemDocument, *messages.TYPES, *bodies, *answered]
    return {f"{each.__module__}.{each.__name__}": each for each in every}


def _without_defaults(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema with each default as words.

    Generators for TypeScript make a member with a `default` one that every request must have.
    """
    members = {}
    for name, member in schema.get("properties", {}).items():
        kept = {key: value for key, value in member.items() if key != "default"}
        if member.get("default") not in (None, "", []):
            said = f"Default: {json.dumps(member['default'])}."
            kept["description"] = ". ".join(filter(None, [member.get("description"), said]))
        members[name] = kept
    return schema | ({"properties": members} if members else {})


def _operation(operation: Operation, named: dict[int, Any]) -> dict[str, Any]:
    described = operation.description
    if operation.scope:
        described = f"{described} Scope: {operation.scope}.".lstrip()
    shown: dict[str, Any] = {
        "operationId": operation.id,
        "summary": operation.summary,
        "description": described,
        "tags": [each for each in (operation.tag, operation.subject) if each],
        "parameters": _parameters(operation),
        "responses": {
            **{
                str(answer.status): _answer(operation, answer, named)
                for answer in operation.answers
            },
            **{
                name[:3]: {"$ref": f"#/components/responses/{name}"}
                for name in sorted({*EVERYWHERE, *operation.problems})  # the special one is last
            },
        },
    }
    if operation.body is not None:
        shown["requestBody"] = {
            "required": any(each.is_required() for each in operation.body.model_fields.values()),
            "content": {
                "application/json": {
                    "schema": named[id(operation.body)],
                    "examples": {"usual": {"value": examples.REQUESTS[operation.id]}},
                }
            },
        }
    if operation.upload:
        shown["requestBody"] = _UPLOAD
    return shown


_UPLOAD = {
    "required": True,
    "content": {
        "multipart/form-data": {
            "schema": {
                "type": "object",
                "properties": {
                    "file": {
                        "type": "string",
                        "format": "binary",
                        "description": f"at most {MAX_ATTACHMENT_BYTES:,} bytes, with a file name",
                    }
                },
                "required": ["file"],
            }
        }
    },
}


def _parameters(operation: Operation) -> list[dict[str, Any]]:
    found = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": described,
            "schema": {"type": "string"},
            "example": ID,
        }
        for name, described in operation.path_parameters.items()
    ]
    if operation.query is not None:
        found += [
            each
            for each in _query(operation.query, examples.QUERIES[operation.id])
            if each["name"] not in operation.path_parameters
        ]
    if operation.waits:
        found.append({"$ref": "#/components/parameters/Prefer"})
    if operation.keyed:
        found.append({"$ref": "#/components/parameters/IdempotencyKey"})
    if operation.method == "get":
        found.append({"$ref": "#/components/parameters/IfNoneMatch"})
    return found


def _query(parameters: type[Parameters], usual: dict[str, Any]) -> list[dict[str, Any]]:
    """Return one parameter for each field; an object is written as `name[key]=value`."""
    schema = parameters.model_json_schema(ref_template=SCHEMAS + "{model}")
    found = []
    for name, member in schema["properties"].items():
        choices = [choice for choice in member.get("anyOf", ()) if choice.get("type") != "null"]
        plain = choices[0] if len(choices) == 1 else member
        plain = {key: value for key, value in plain.items() if key not in ("title", "description")}
        parameter = {"name": name, "in": "query", "schema": plain}
        if "description" in member:
            parameter["description"] = member["description"]
        if name in usual:
            parameter["example"] = usual[name]
        if plain.get("type") == "object":
            parameter |= {"style": "deepObject", "explode": True}
        found.append(parameter)
    return found


def _answer(operation: Operation, answer: Answered, named: dict[int, Any]) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "description": answer.description,
        "headers": _headers(*answer.headers, *ON_EVERY_ANSWER),
    }
    if answer.links:
        shown["links"] = {
            name: {"operationId": name, "parameters": dict(values)}
            for name, values in answer.links.items()
        }
    if answer.types:
        schemas = [named[id(each)] for each in answer.types]
        shown["content"] = {
            "application/json": {
                "schema": schemas[0] if len(schemas) == 1 else {"oneOf": schemas},
                "examples": {
                    each.__name__: {"value": EXAMPLES[each.__name__]} for each in answer.types
                },
            }
        }
    return shown


def _headers(*names: str) -> dict[str, Any]:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


def _problem(name: str) -> dict[str, Any]:
    more = [*(["Retry-After"] if name in WITH_RETRY_AFTER else [])]
    more += ["WWW-Authenticate"] if name[:3] in ("401", "403") else []
    return describe_problems(name) | {"headers": _headers(*more, "X-Request-ID")}
