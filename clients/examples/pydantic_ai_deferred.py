"""Pydantic AI: the tool call is deferred, and the run goes on when a person has decided."""

import json
import os

from mailhub_client import Mailhub
from models import OPENAI
from pydantic_ai import (
    Agent,
    CallDeferred,
    DeferredToolRequests,
    DeferredToolResults,
    RunContext,
)
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models import Model
from pydantic_ai.models.function import AgentInfo, FunctionModel

MODEL = f"openai:{OPENAI}"
TASK = "Ask mira@northwind.example whether Thursday suits her."
hub = Mailhub(os.environ["MAILHUB_URL"], token=os.environ["MAILHUB_TOKEN"])


def send_email(
    context: RunContext, to: str, subject: str, body: str, replaces: str | None = None
) -> str:
    """Propose a mail. A person decides whether it is sent; the answer says how that went."""
    mail = {"to": to, "subject": subject, "body": body, "replaces": replaces}
    action = hub.propose("send_email", key=context.tool_call_id, **mail)
    raise CallDeferred(metadata={"action_id": action.id, "review_url": action.review_url})


def main() -> None:
    agent = Agent(choose_model(), tools=[send_email], output_type=[str, DeferredToolRequests])
    run = agent.run_sync(TASK)
    while isinstance(run.output, DeferredToolRequests):
        decided = DeferredToolResults()
        for call_id, waiting in run.output.metadata.items():
            print("A person decides at", waiting["review_url"], flush=True)
            action = hub.wait(waiting["action_id"])
            print("mailhub:", action.raw["next"])
            decided.calls[call_id] = json.dumps(dict(action.raw))
        run = agent.run_sync(message_history=run.all_messages(), deferred_tool_results=decided)
    print("model:", run.output)


def choose_model() -> Model | str:
    """Return a real model if there is a key for it, otherwise a script."""
    return MODEL if os.environ.get("OPENAI_API_KEY") else FunctionModel(answer)


def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    if len(messages) > 1:
        return ModelResponse([TextPart("The mail is settled.")])
    mail = {"to": "mira@northwind.example", "subject": "Thursday", "body": "Does it suit you?"}
    return ModelResponse([ToolCallPart("send_email", mail)])


main()
