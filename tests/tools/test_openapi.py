"""The OpenAPI document is valid, names everything that REST has, and its examples are true."""

import json
import re
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest
from django.test import Client
from openapi_spec_validator import OpenAPIV31SpecValidator

from accounts.infra.problems import STATUS
from approvals.reports.steps import EVENTS
from tests.support.documented import check_message, strict_validator
from tools.catalog.entries import TOOLS
from tools.surfaces.openapi.document import build_document
from tools.surfaces.rest import make_api


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    """Return the document as a program reads it."""
    found: dict[str, Any] = json.loads(json.dumps(build_document()))
    return found


def every_operation(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, item in document["paths"].items():
        for method, operation in item.items():
            yield path, method, operation


def members(value: Any) -> Iterator[dict[str, Any]]:
    """Yield each object inside a JSON value."""
    if isinstance(value, dict):
        yield value
    for inner in value.values() if isinstance(value, dict) else value:
        if isinstance(inner, dict | list):
            yield from members(inner)


def test_document_is_valid_and_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    assert document["openapi"].startswith("3.1")
    OpenAPIV31SpecValidator(document).validate()
    for reference in (each["$ref"] for each in members(document) if "$ref" in each):
        found: Any = document
        for name in reference.removeprefix("#/").split("/"):
            found = found[name]


def test_document_needs_no_token(client: Client, document: dict[str, Any]) -> None:
    answer = client.get("/api/v1/openapi.json")
    assert answer.json() == document
    assert answer["ETag"]


def test_every_route_is_in_the_document(document: dict[str, Any]) -> None:
    """Compare with the router. The document itself and the way to an unknown tool are left out."""
    routed = {
        (re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", f"/api/v1{path}"), method.lower())
        for _, router in make_api()._routers
        for path, view in router.path_operations.items()
        for operation in view.operations
        for method in operation.methods
    }
    documented = {(path, method) for path, method, _ in every_operation(document)}
    assert routed - documented == {
        ("/api/v1/openapi.json", "get"),
        ("/api/v1/tools/{name}", "post"),
    }
    assert documented <= routed


def test_messages_of_all_events_are_described_with_true_examples(document: dict[str, Any]) -> None:
    assert set(document["webhooks"]) == {*EVENTS, "security"}
    for name, item in document["webhooks"].items():
        example = item["post"]["requestBody"]["content"]["application/json"]["example"]
        assert example["type"].startswith(name)
        check_message(example)


def test_ids_of_operations_are_unique_and_fit_every_language(document: dict[str, Any]) -> None:
    ids = [operation["operationId"] for _, _, operation in every_operation(document)]
    assert len(ids) == len(set(ids))
    assert all(re.fullmatch(r"[a-z][a-z0-9_]*", each) for each in ids)
    assert set(TOOLS) <= set(ids)


def test_names_of_schemas_are_plain(document: dict[str, Any]) -> None:
    """Two types of one name would be told apart by the names of our modules."""
    assert not [name for name in document["components"]["schemas"] if not name.isalnum()]


def test_every_answer_has_a_body_with_examples(document: dict[str, Any]) -> None:
    for path, method, operation in every_operation(document):
        bodies = [operation.get("requestBody")]
        for status, answer in operation["responses"].items():
            assert answer.get("description") or "$ref" in answer, (path, status)
            bodies += [answer] if status not in ("204", "304") and "$ref" not in answer else []
        for body in filter(None, bodies):
            for kind, content in body["content"].items():
                if kind == "application/json":
                    assert content["examples"], (path, method)
                    for example in content["examples"].values():
                        validator_of(content["schema"]).validate(example["value"])


def test_every_problem_says_what_to_do_and_has_a_true_example(document: dict[str, Any]) -> None:
    for name, answer in document["components"]["responses"].items():
        content = answer["content"]["application/problem+json"]
        for code, example in content["examples"].items():
            validator_of(content["schema"]).validate(example["value"])
            assert (example["value"]["status"], example["value"]["code"]) == (int(name[:3]), code)
            assert code in STATUS
            assert example["summary"]


def test_only_operations_with_a_key_or_rules_have_their_codes(document: dict[str, Any]) -> None:
    codes = {
        name: codes_of(document, name) for name in ("read_email", "create_draft", "send_email")
    }
    assert not codes["read_email"] & {"idempotency_mismatch", "policy_blocked"}
    assert "policy_blocked" not in codes["create_draft"]
    assert codes["send_email"] >= {"idempotency_mismatch", "policy_blocked", "invalid_input"}


def codes_of(document: dict[str, Any], name: str) -> set[str]:
    responses = document["paths"][f"/api/v1/tools/{name}"]["post"]["responses"].values()
    named = [each["$ref"].rpartition("/")[2] for each in responses if "$ref" in each]
    content = [document["components"]["responses"][each]["content"] for each in named]
    return {code for each in content for code in each["application/problem+json"]["examples"]}


def validator_of(schema: dict[str, Any]) -> Any:
    return strict_validator(json.dumps(schema))


def test_example_with_an_unknown_member_would_be_noticed() -> None:
    reference = {"$ref": "#/components/schemas/Deleted"}
    validator_of(reference).validate({"deleted": True})
    with pytest.raises(jsonschema_rs.ValidationError):
        validator_of(reference).validate({"deleted": True, "more": 1})


@pytest.mark.parametrize(
    "path", ["/tools/send_email", "/tools/create_draft", "/attachments", "/webhooks"]
)
def test_operation_that_stores_something_takes_a_key(document: dict[str, Any], path: str) -> None:
    parameters = document["paths"][f"/api/v1{path}"]["post"]["parameters"]
    assert {"$ref": "#/components/parameters/IdempotencyKey"} in parameters
