"""Anthropic: a loop around the Messages API, with mailhub's own tools and no framework."""

import json
import os
from contextlib import ExitStack
from typing import Any

from anthropic import Anthropic
from mailhub_client import Mailhub, MailhubError
from models import ANTHROPIC
from scripted_anthropic import scripted

TASK = "Ask mira@northwind.example whether Thursday suits her."
TOOLS = ("list_emails", "read_email", "send_email", "reply_email")
hub = Mailhub(os.environ["MAILHUB_URL"], token=os.environ["MAILHUB_TOKEN"])


def main() -> None:
    with ExitStack() as stack:
        # Without a key for a real model, a script answers.
        real = os.environ.get("ANTHROPIC_API_KEY")
        model = Anthropic() if real else stack.enter_context(scripted())
        messages: list[Any] = [{"role": "user", "content": TASK}]
        while True:
            answer = model.messages.create(
                model=ANTHROPIC, max_tokens=2000, tools=tools(), messages=messages
            )
            if answer.stop_reason != "tool_use":
                break
            results = [use(block) for block in answer.content if block.type == "tool_use"]
            messages.append({"role": "assistant", "content": answer.content})
            messages.append({"role": "user", "content": results})
        print("model:", "".join(block.text for block in answer.content if block.type == "text"))


def tools() -> list[Any]:
    """Return the tools as the Messages API describes them."""
    return [
        {
            "name": each["name"],
            "description": each["description"],
            "input_schema": each["parameters"],
        }
        for each in hub.tools()
        if each["name"] in TOOLS
    ]


def use(call: Any) -> dict[str, Any]:
    """Call a tool. A proposal is answered when a person has decided."""
    answer = {"type": "tool_result", "tool_use_id": call.id}
    try:
        result = hub.call(call.name, **call.input)
        if result.get("status") == "pending":
            print("A person decides at", result["action"]["review_url"], flush=True)
            result = dict(hub.wait(result["action"]["id"]).raw)
            print("mailhub:", result["next"])
    except MailhubError as error:
        return {**answer, "is_error": True, "content": str(error)}
    return {**answer, "content": json.dumps(result)}


main()
