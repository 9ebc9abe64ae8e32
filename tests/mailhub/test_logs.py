"""Logs hold listed fields and nothing else, whichever code writes them."""

import errno
import io
import json
import logging
from base64 import b64encode
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from uuid import uuid4

import pytest
import structlog
from django.test import Client

from mailhub.operations import logs
from tests.conftest import HELLO, Api, Reviewer
from tests.support.processes.programs import manage
from tools.providers.graph.call_log import log_call

Logged = Callable[[], str]
CANARY = "canary@northwind.example"


@pytest.fixture
def logged() -> Iterator[Logged]:
    """Yield everything written since the test began, as on standard error."""
    (handler,) = (
        each
        for each in logging.getLogger().handlers
        if isinstance(each, logging.StreamHandler)
        and isinstance(each.formatter, structlog.stdlib.ProcessorFormatter)
    )
    stream = io.StringIO()
    before = handler.setStream(stream)
    yield stream.getvalue
    handler.setStream(before)


def a_failure() -> ValueError:
    try:
        raise ValueError(CANARY) from KeyError(CANARY)
    except ValueError as error:
        return error


def test_listed_fields_pass_and_all_others_are_dropped(logged: Logged) -> None:
    structlog.get_logger("mailhub.test").info(
        "tool_called", tool="send_email", count=3, to=CANARY, subject=CANARY
    )
    (line,) = logged().splitlines()
    assert "event=tool_called" in line
    assert "tool=send_email" in line
    assert "count=3" in line
    assert "logger=mailhub.test" in line
    assert CANARY not in line
    assert "to=" not in line


def test_library_record_shows_numbers_and_ids_only(logged: Logged) -> None:
    library, job = logging.getLogger("some.library"), uuid4()
    library.warning("cannot reach %s on port %d", CANARY, 25, extra={"subject": CANARY})
    library.warning("%s: job %s, %s ended after %.1f s", job, job.hex, CANARY, 0.5)
    library.warning("%(who)s made %(count)d calls", {"who": CANARY, "count": 3})
    library.warning("%.1f s for %s", Decimal("1.5"), CANARY)
    reached, ended, named, kept = logged().splitlines()
    assert 'event="cannot reach … on port 25"' in reached
    assert f'event="{job}: job {job.hex}, … ended after 0.5 s"' in ended
    assert 'event="… made 3 calls"' in named
    assert 'event="%.1f s for %s"' in kept
    assert "logger=some.library" in reached
    assert CANARY not in logged()


def test_formatted_record_shows_only_its_logger(logged: Logged) -> None:
    logging.getLogger("some.library").warning(f"cannot reach {CANARY}")  # noqa: G004  # as libraries do it
    logging.getLogger("some.library").warning(a_failure())
    for line in logged().splitlines():
        assert "event=some.library" in line
        assert CANARY not in line
    assert len(logged().splitlines()) == 2


@pytest.mark.django_db
def test_refused_request_is_one_line(logged: Logged, client: Client) -> None:
    assert client.get("/statusz").status_code == 503  # no worker is there
    (line,) = logged().splitlines()
    assert "event=request_finished" in line
    assert "route=statusz" in line


@pytest.mark.parametrize("name", ["structlog", "library"])
def test_exception_is_logged_by_type_and_place_only(logged: Logged, name: str) -> None:
    log = (
        structlog.get_logger("mailhub.test")
        if name == "structlog"
        else logging.getLogger("some.library")
    )
    try:
        raise a_failure()
    except ValueError:
        log.exception("it_failed")
    (line,) = logged().splitlines()
    assert "error_type=ValueError" in line
    assert "test_logs.py" in line
    assert ":a_failure" in line
    assert CANARY not in line
    assert "Traceback" not in line


def test_error_of_the_system_is_logged_by_its_number(logged: Logged) -> None:
    try:
        raise OSError(errno.ENOSPC, CANARY, CANARY)
    except OSError:
        structlog.get_logger("mailhub.test").exception("it_failed")
    assert "errno=ENOSPC" in logged()
    assert CANARY not in logged()


def test_line_break_in_a_value_makes_no_second_line(logged: Logged) -> None:
    structlog.get_logger("mailhub.test").info("tool_called", tool="a\nevent=forged")
    assert logged().count("\n") == 1


def test_lines_are_json_if_the_setting_says_so(tmp_path: Path) -> None:
    said = manage(
        tmp_path,
        "shell",
        "--command",
        "import structlog; structlog.get_logger('mailhub.test').info('tool_called', count=3, to='x', size=None)",
        LOG_FORMAT="json",
        SECRET_KEY="k" * 40,
        MAILHUB_ENCRYPTION_KEYS=b64encode(b"k" * 32).decode(),
    )
    (line,) = [json.loads(line) for line in said.stderr.splitlines()]
    assert {**line, "timestamp": ""} == {
        "event": "tool_called", "level": "info", "logger": "mailhub.test", "count": 3, "timestamp": ""
    }  # fmt: skip


@pytest.mark.django_db(transaction=True)
def test_call_of_a_sending_tool_is_logged_by_its_form(api: Api, logged: Logged) -> None:
    api.tool("send_email", **HELLO, cc=["cc@northwind.example"], importance="high")
    api.tool("reply_email", message_id="no-such-message", comment="Yes.", reply_all=True)
    api.tool("forward_email", message_id="no-such-message", to=["a@b.example"])
    said = [line for line in logged().splitlines() if "event=tool_called" in line]
    assert "recipient_count=2" in said[0]
    assert "body_type=text importance=high" in said[0]
    assert "reply_all" in said[1]
    assert "has_comment" in said[1]
    assert "recipient_count=1" in said[2]
    assert "has_comment=false" in said[2].lower()
    assert "northwind" not in logged()


@pytest.mark.django_db(transaction=True)
def test_lines_of_proposal_and_decision_name_the_action(
    api: Api, reviewer: Reviewer, logged: Logged
) -> None:
    approved, rejected = api.propose(), api.propose()
    assert reviewer.decide(approved, "approve").status_code == 302
    assert reviewer.decide(rejected, "reject").status_code == 302
    assert api.get("/actions/canary-id").status_code == 404
    lines = logged().splitlines()
    for event, action in (
        ("event=tool_called", approved),
        ("event=approval outcome=approved", approved),
        ("route=actions/<uuid:action_id>/approve/", approved),
        ("route=actions/<uuid:action_id>/reject/", rejected),
        ("route=api/v1/actions/", None),
    ):
        said = [line for line in lines if all(word in line for word in event.split())]
        assert any(f"action={action}" in line for line in said) is bool(action), event
    assert "canary" not in logged()


def test_call_of_graph_is_logged_without_ids(logged: Logged) -> None:
    base = "https://graph.microsoft.com/v1.0"
    with log_call("GET", f"{base}/users/ada@lovelace.example/messages/AAMkAGI2TG93AAA=/$value?q=1"):
        pass
    with log_call("POST", f"{base}/me/mailFolders/inbox/messages") as call:
        call.status = 201
    read, written = logged().splitlines()
    assert "endpoint=/v1.0/users/*/messages/*/$value" in read
    assert "status" not in read
    assert "method=POST" in written
    assert "endpoint=/v1.0/me/mailFolders/inbox/messages status=201" in written


@pytest.mark.django_db
def test_request_is_logged_by_its_route_only(logged: Logged) -> None:
    Client().get(
        "/sign-in/one-time-secret/?q=canary",
        REMOTE_ADDR="203.0.113.9",
        headers={"User-Agent": CANARY},
    )
    Client().get("/nowhere/canary-path/")
    found, missing = logged().splitlines()
    assert "route=sign-in/<str:secret>/" in found
    assert "method=GET" in found
    assert "status=410" in found
    assert "route=-" in missing
    assert "status=404" in missing
    for secret in ("one-time-secret", "canary", "203.0.113.9"):
        assert secret not in found + missing


def test_every_process_logs_through_the_list() -> None:
    """Check for one handler at the root, and no other handler of a library."""
    formatters = [
        each.formatter
        for each in logging.getLogger().handlers
        if type(each) is logging.StreamHandler
    ]
    assert len(formatters) == 1
    assert {"subject", "to", "body", "path", "ip", "address"}.isdisjoint(logs.ALLOWED)
    own = [
        name
        for name in ("django", "django.request", "uvicorn", "uvicorn.error")
        if logging.getLogger(name).handlers
    ]
    assert own == []
