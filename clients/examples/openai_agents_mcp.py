"""OpenAI Agents SDK: the model uses mailhub's own tools over MCP, and waits with get_action."""

import asyncio
import json
import os

from agents import Agent, Runner, set_tracing_disabled
from agents.mcp import MCPServerStreamableHttp
from agents.models.interface import Model
from agents.testing import ModelCall, ModelStep, ScriptedModel, assistant_message, function_call
from models import OPENAI

TASK = "Ask mira@northwind.example whether Thursday suits her, and wait for the decision."
URL, TOKEN = os.environ["MAILHUB_URL"], os.environ["MAILHUB_TOKEN"]
SECONDS = 90.0  # get_action answers after 60 at the latest


async def main() -> None:
    set_tracing_disabled(True)  # nothing about the mail goes to a third party
    mailhub = MCPServerStreamableHttp(
        {"url": f"{URL}/mcp", "headers": {"Authorization": f"Bearer {TOKEN}"}, "timeout": SECONDS},
        client_session_timeout_seconds=SECONDS,
    )
    async with mailhub:
        agent = Agent(name="desk", model=choose_model(), mcp_servers=[mailhub])
        run = await Runner.run(agent, TASK)
    print("model:", run.final_output)


def choose_model() -> Model | str:
    """Return a real model if there is a key for it, otherwise a script."""
    if os.environ.get("OPENAI_API_KEY"):
        return OPENAI
    mail = {"to": "mira@northwind.example", "subject": "Thursday", "body": "Does it suit you?"}
    propose = [function_call("send_email", {**mail, "confirm": True}, call_id="call_1")]
    return ScriptedModel([propose, ModelStep.respond(wait), ModelStep.respond(report)])


def wait(call: ModelCall) -> list:
    action = result_of(call)["action"]
    print("A person decides at", action["review_url"], flush=True)
    return [function_call("get_action", {"action_id": action["id"], "wait": 60}, call_id="call_2")]


def report(call: ModelCall) -> list:
    print("mailhub:", result_of(call)["next"])
    return [assistant_message("The mail is settled.")]


def result_of(call: ModelCall) -> dict:
    """Return what the last tool answered."""
    output = call.input[-1]["output"]
    return json.loads(output if isinstance(output, str) else output[0]["text"])


asyncio.run(main())
