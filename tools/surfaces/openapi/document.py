"""The OpenAPI 3.1 document, from which programs generate their clients."""

import json
from functools import cache
from http import HTTPStatus
from typing import Any

from django.utils import translation
from pydantic import TypeAdapter

from accounts.models import SCOPES
from tools.schemas import MAX_ATTACHMENT_BYTES, Parameters
from tools.surfaces.openapi import examples, messages, results
from tools.surfaces.openapi.operations import API, EVERYWHERE, Answered, Operation, operations

SCHEMAS = "#/components/schemas/"
ABOUT = (
    "The gate between programs and mailboxes. A program proposes, and a person decides: no call "
    "approves. Errors are problem documents (RFC 9457)."
)
# Each status of a refusal: an example of its code, and its meaning.
PROBLEMS = {
    "400": ("invalid_input", "The request cannot be read"),
    "401": ("unauthenticated", "The token is missing, unknown, expired or revoked"),
    "403": ("forbidden", "The token, the role or the rules of the mailbox do not allow it"),
    "404": ("not_found", "It does not exist, or you may not see it"),
    "408": ("invalid_input", "The body arrived too slowly"),
    "409": ("conflict", "The state has changed"),
    "413": ("too_large", "The body or a file is too large"),
    "415": ("unsupported_media_type", "The body is not JSON"),
    "422": ("invalid_input", "Some parameters are not valid"),
    "424": ("auth_error", "The mailbox must be reconnected"),
    "429": ("rate_limited", "A quota is used up; wait for `Retry-After`"),
    "500": ("transient", "A fault of mailhub; nothing was sent by this request"),
    "503": ("transient", "Not available right now; try again later"),
}
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
        "tags": [{"name": tag} for tag in dict.fromkeys(each.tag for each in found)],
        "paths": paths,
        "webhooks": messages.describe_webhooks(named),
        "components": {
            "schemas": {
                name: _without_defaults(schema) for name, schema in sorted(defined["$defs"].items())
            },
            "responses": {status: _problem(status) for status in PROBLEMS},
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
    """Return all types of bodies and answers by a name of their own."""
    bodies = [each.body for each in found if each.body is not None]
    answered = [each for one in found for answer in one.answers for each in answer.types]
    every = [results.ProblemDocument, *messages.TYPES, *bodies, *answered]
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
            kept["description"] = f"{member.get('description', '')} {said}".lstrip()
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
        "tags": [operation.tag],
        "parameters": _parameters(operation),
        "responses": {
            **{
                str(answer.status): _answer(operation, answer, named)
                for answer in operation.answers
            },
            **{
                status: {"$ref": f"#/components/responses/{status}"}
                for status in sorted({*EVERYWHERE, *operation.problems})
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
            "example": examples.ID,
        }
        for name, described in operation.path_parameters.items()
    ]
    if operation.query is not None:
        found += [
            each
            for each in _query(operation.query)
            if each["name"] not in operation.path_parameters
        ]
    if operation.waits:
        found.append({"$ref": "#/components/parameters/Prefer"})
    if operation.keyed:
        found.append({"$ref": "#/components/parameters/IdempotencyKey"})
    if operation.method == "get":
        found.append({"$ref": "#/components/parameters/IfNoneMatch"})
    return found


def _query(parameters: type[Parameters]) -> list[dict[str, Any]]:
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
                    each.__name__: {"value": examples.RESULTS[each.__name__]}
                    for each in answer.types
                },
            }
        }
    return shown


def _headers(*names: str) -> dict[str, Any]:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


def _problem(status: str) -> dict[str, Any]:
    code, described = PROBLEMS[status]
    more = [*(["Retry-After"] if status in WITH_RETRY_AFTER else [])]
    more += ["WWW-Authenticate"] if status in ("401", "403") else []
    return {
        "description": described,
        "headers": _headers(*more, "X-Request-ID"),
        "content": {
            "application/problem+json": {
                "schema": {"$ref": SCHEMAS + "ProblemDocument"},
                "example": examples.problem(code, HTTPStatus(int(status)), described),
            }
        },
    }
