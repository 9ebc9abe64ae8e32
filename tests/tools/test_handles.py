"""Short names of messages: they work as long as somebody may need them, and are then forgotten."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from approvals.worker import maintenance
from tests.conftest import Api, Reviewer
from tests.support.people.outlook import graph, letter, mailbox
from tests.support.servers.graph import GraphServer
from tests.support.servers.sandbox import ADA
from tests.support.work import work
from tools.models import MessageHandle

__all__ = ["graph", "mailbox"]
pytestmark = pytest.mark.django_db


def received(api: Api, graph: GraphServer) -> str:
    graph.deliver(ADA, letter().as_bytes())
    return str(api.tool("list_emails").json()["emails"][0]["id"])


def a_year_goes_by() -> None:
    MessageHandle.objects.update(used_at=timezone.now() - timedelta(days=365))


def is_known(api: Api, message_id: str) -> bool:
    return bool(api.tool("read_email", message_id=message_id).status_code == 200)


def test_unused_handle_is_forgotten_until_the_next_list(api: Api, graph: GraphServer) -> None:
    message_id = received(api, graph)
    a_year_goes_by()
    maintenance.purge_others()
    assert not is_known(api, message_id)
    assert api.tool("list_emails").json()["emails"][0]["id"] == message_id
    assert is_known(api, message_id)


@pytest.mark.parametrize("tool", ["list_emails", "read_email"])
def test_used_handle_is_kept(api: Api, graph: GraphServer, tool: str) -> None:
    message_id = received(api, graph)
    a_year_goes_by()
    api.tool(tool, **({"message_id": message_id} if tool == "read_email" else {}))
    maintenance.purge_others()
    assert is_known(api, message_id)


def test_handle_is_kept_while_a_reply_to_it_waits(
    api: Api, graph: GraphServer, reviewer: Reviewer
) -> None:
    message_id = received(api, graph)
    action = api.tool("reply_email", message_id=message_id, comment="Yes.", confirm=True).json()[
        "action"
    ]["id"]
    a_year_goes_by()
    maintenance.purge_others()
    assert reviewer.decide(action, "approve").status_code == 302
    a_year_goes_by()
    maintenance.purge_others()
    work()
    assert api.get(f"/actions/{action}").json()["state"] == "succeeded"
    assert is_known(api, message_id)
    a_year_goes_by()
    maintenance.purge_others()
    assert not is_known(api, message_id)


def test_handle_of_a_draft_lasts_as_long_as_the_draft(api: Api, graph: GraphServer) -> None:
    mail: dict[str, Any] = {"to": ["mira@northwind.example"], "subject": "Later"}
    draft = api.tool("create_draft", **mail, body="Not yet.").json()
    a_year_goes_by()
    maintenance.purge_others()
    changed = api.tool("update_draft", draft_id=draft["id"], **mail, body="Now.")
    assert changed.status_code == 200, changed.content
