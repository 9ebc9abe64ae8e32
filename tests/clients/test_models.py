"""The models that examples and pages name exist, and are not about to end."""

from runpy import run_path
from typing import get_args

import pytest

from tests.support.processes.programs import PROJECT

NAMES = run_path(str(PROJECT / "clients/examples/models.py"))


def test_models_are_those_of_the_vendors_libraries() -> None:
    # Here, because they load for a second, and every process of the tests imports this module.
    from anthropic.resources.messages.messages import DEPRECATED_MODELS
    from anthropic.types import Model
    from openai.types import ChatModel

    assert NAMES["OPENAI"] in get_args(ChatModel)
    assert NAMES["ANTHROPIC"] in get_args(get_args(Model)[0])
    assert NAMES["ANTHROPIC"] not in DEPRECATED_MODELS


@pytest.mark.parametrize(
    "place",
    ["README.md", ".env.example", "templates/agent/chat.html", "mailhub/agent/chat_models.py"],
)
def test_pages_name_the_same_model(place: str) -> None:
    assert f"openai:{NAMES['OPENAI']}" in (PROJECT / place).read_text()
