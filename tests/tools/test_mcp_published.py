"""A published schema is small, and promises nothing that the validation does not check."""

from typing import Any, Literal

import pytest
from pydantic import Field, ValidationError

from tools.catalog.entries import TOOLS, Tool
from tools.catalog.tool_schema import published_hints, published_parameters
from tools.schemas import ListActions, MailboxParameters, Parameters, SendingParameters


class File(Parameters):
    """A docstring of a class is for developers."""

    handle: str


class Example(MailboxParameters):
    title: str
    mode: Literal["on", "off"] = "on"
    count: int = Field(10, ge=1, le=50)
    since: str | None = Field(None, max_length=20, description="a date")
    id: str | int | None = None
    uid: int | None = None
    shown: bool = True
    files: list[File] = []
    either: File | str | None = None


def test_optional_fields_are_plain_types_without_repetition() -> None:
    assert published_parameters(Example) == {
        "type": "object",
        "properties": {
            "mailbox": {"type": "string", "description": "address"},
            "title": {"type": "string"},
            "mode": {"type": "string", "enum": ["on", "off"]},
            "count": {"type": "integer", "maximum": 50},
            "since": {"type": "string", "description": "a date"},
            "id": {"type": "string"},
            "shown": {"type": "boolean", "default": True},
            "files": {"type": "array", "items": {"type": "object"}},
            "either": {"anyOf": [{"type": "object"}, {"type": "string"}]},
        },
        "required": ["title"],
    }


def test_long_list_of_choices_is_left_to_the_error() -> None:
    assert "enum" not in published_parameters(ListActions)["properties"]["state"]
    with pytest.raises(ValidationError, match="superseded"):
        ListActions.model_validate({"state": "no such state"})


@pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS)
def test_published_schema_of_a_tool_is_true(tool: Tool) -> None:
    schema = published_parameters(tool.parameters)
    members: dict[str, Any] = tool.parameters.model_json_schema().get("properties", {})

    left_out = {"uid", "user_id", "metadata", "callback_url"}
    left_out |= {"idempotency_key", "save_to_sent_items", "label_ids"}
    if not issubclass(tool.parameters, SendingParameters):
        left_out.add("reason")
    assert set(members) - set(schema["properties"]) <= left_out
    assert set(schema.get("required", [])) == {
        name
        for name, member in members.items()
        if name in tool.parameters.model_json_schema().get("required", [])
    }
    for name, member in schema["properties"].items():
        assert {"type", "anyOf"} & set(member), name
        assert not {"title", "additionalProperties", "$ref"} & set(member)
        if member.get("type") == "array":
            assert "type" in member["items"]


@pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS)
def test_no_tool_with_a_side_effect_is_marked_read_only(tool: Tool) -> None:
    hints = published_hints(tool)

    if (tool.effect != "read" and tool.name != "list_drafts") or tool.name == "cancel_action":
        assert "readOnlyHint" not in hints
    if tool.name in ("update_draft", "delete_draft", "cancel_action", "m365_run_command"):
        assert "destructiveHint" not in hints  # the protocol assumes it
