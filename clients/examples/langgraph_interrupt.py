"""LangGraph: a tool interrupts the graph until a person has decided, and the run goes on from there."""

import json
import os
import uuid
from typing import Annotated

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel, GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt
from mailhub_client import Mailhub
from models import OPENAI

MODEL = f"openai:{OPENAI}"
TASK = "Ask mira@northwind.example whether Thursday suits her."
hub = Mailhub(os.environ["MAILHUB_URL"], token=os.environ["MAILHUB_TOKEN"])


@tool
def send_email(
    to: str,
    subject: str,
    body: str,
    call_id: Annotated[str, InjectedToolCallId],
    replaces: str | None = None,
) -> str:
    """Propose a mail. A person decides whether it is sent; the answer says how that went."""
    # LangGraph begins this function again when the run goes on. The key leads to the same action.
    mail = {"to": to, "subject": subject, "body": body, "replaces": replaces}
    action = hub.propose("send_email", key=call_id, **mail)
    return str(interrupt({"action_id": action.id, "review_url": action.review_url}))


def main() -> None:
    agent = create_agent(choose_model(), [send_email], checkpointer=InMemorySaver())
    thread = {"configurable": {"thread_id": uuid.uuid4().hex}}
    result = agent.invoke({"messages": [{"role": "user", "content": TASK}]}, thread)
    while waiting := result.get("__interrupt__"):
        decided = {}
        for each in waiting:
            print("A person decides at", each.value["review_url"], flush=True)
            action = hub.wait(each.value["action_id"])
            print("mailhub:", action.raw["next"])
            decided[each.id] = json.dumps(dict(action.raw))
        result = agent.invoke(Command(resume=decided), thread)
    print("model:", result["messages"][-1].text)


class ScriptedModel(GenericFakeChatModel):
    """A model that answers what it was given, whatever it is asked."""

    def bind_tools(self, tools: object, **options: object) -> BaseChatModel:
        return self


def choose_model() -> BaseChatModel | str:
    """Return a real model if there is a key for it, otherwise a script."""
    if os.environ.get("OPENAI_API_KEY"):
        return MODEL
    mail = {"to": "mira@northwind.example", "subject": "Thursday", "body": "Does it suit you?"}
    call = {"name": "send_email", "args": mail, "id": uuid.uuid4().hex}
    return ScriptedModel(
        messages=iter([AIMessage("", tool_calls=[call]), AIMessage("The mail is settled.")])
    )


main()
