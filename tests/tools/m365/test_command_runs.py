"""Commands in Microsoft 365 are recorded as they ran, for the people who may see them."""

import json
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from accounts.models import User
from tests.conftest import Api, Reviewer
from tests.support.servers.m365 import M365
from tests.support.work import work
from tools.models import CommandRun
from tools.sending import command_runs as runs

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(120)]
ADDED = {
    "id": "AAMk1",
    "subject": "Talk",
    "start": {"dateTime": "2026-12-01T10:00:00", "timeZone": "UTC"},
    "end": {"dateTime": "2026-12-01T11:00:00", "timeZone": "UTC"},
    "body": {"content": "Bearer abcdefghijklmnop1234"},
}
EVENT = "m365 outlook event add --subject Talk"


def page(person: User) -> str:
    client = Client()
    client.force_login(person)
    return client.get("/commands/").content.decode()


def test_agent_gets_the_answer_to_its_approved_command(
    runner: Api, alice: User, reviewer: Reviewer, m365: M365, settings: Any
) -> None:
    settings.MCP_M365_STRICT_READONLY = False
    m365.answers(outlook_event_add=ADDED)
    action_id = runner.tool("m365_run_command", command=EVENT, confirm=True).json()["action"]["id"]
    assert "result" not in runner.get(f"/actions/{action_id}").json()
    reviewer.decide(action_id, "approve")
    work()

    result = runner.get(f"/actions/{action_id}").json()["result"]
    assert json.loads(result["output"]) == {
        "id": "AAMk1",
        "subject": "Talk",
        "start": "2026-12-01T10:00:00",
        "end": "2026-12-01T11:00:00",
    }
    assert result["command"].startswith("m365 outlook event add --subject")
    shown = reviewer.page(action_id).content.decode()
    assert "AAMk1" in shown
    assert "AAMk1" in page(reviewer.user)
    stored = CommandRun.objects.filter(action_id=action_id).values_list("outcome", "surface").get()
    assert stored == ("ok", "approved")
    User.objects.filter(pk=alice.pk).update(is_staff=False)
    assert "result" not in runner.get(f"/actions/{action_id}").json()


def test_reads_are_recorded_and_shown_to_their_person(
    runner: Api, alice: User, bob: User, m365: M365
) -> None:
    m365.answers(outlook_calendar_list=[], teams_team_get={"exit": "no such team"})
    runner.tool("m365_run_command", command="m365 outlook calendar list --output csv")
    runner.tool("m365_run_command", command="m365 teams team get --id 1")

    mine = page(alice)
    assert "m365 outlook calendar list" in mine
    assert "csv" not in mine
    assert "runner" in mine
    assert ">error<" in mine
    assert "outlook" not in page(bob)
    User.objects.filter(pk=bob.pk).update(is_staff=True)
    assert "outlook" in page(bob)


def test_record_is_encrypted_and_ends_with_the_retention(
    runner: Api, m365: M365, settings: Any
) -> None:
    m365.answers(teams_team_get={"id": "1"})
    runner.tool("m365_run_command", command="m365 teams team get --id canary-1")
    assert "canary" in CommandRun.objects.get().line
    with connection.cursor() as cursor:
        cursor.execute("SELECT line, output FROM tools_commandrun")
        assert "canary" not in str(cursor.fetchall())

    runs.purge()
    assert CommandRun.objects.exists()
    settings.MAILHUB_RETENTION_DAYS = 0
    runs.purge()
    assert not CommandRun.objects.exists()
