"""The request log: a call does not wait for it, and what it loses it names."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from accounts.access import request_log
from accounts.access.auth import caller_of_token
from accounts.models import ApiToken, Mailbox, RequestRecord, User
from tests.conftest import Api, make_api
from tests.support.processes.programs import environment, this_test, until

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def writer(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[request_log.Writer]:
    """Yield a writer of this test only: the thread of an earlier test may still wait."""
    settings.MAILHUB_REQUEST_LOG_SECONDS = 0.3
    monkeypatch.setattr(request_log, "IDLE_SECONDS", 0)  # no connection is left open
    monkeypatch.setattr(request_log, "WRITER", request_log.Writer())
    yield request_log.WRITER
    request_log.WRITER.flush()


def test_reading_writes_nothing_and_is_recorded_a_little_later(api: Api) -> None:
    api.tool("list_mailboxes")  # notes when the token was last used
    began = timezone.now()
    with CaptureQueriesContext(connection) as done:
        api.tool("list_mailboxes")
    answered = timezone.now()
    assert [each["sql"] for each in done if not each["sql"].startswith("SELECT")] == []
    until(lambda: RequestRecord.objects.count() == 2)
    assert began <= RequestRecord.objects.latest("pk").at <= answered


def test_records_are_written_together(api: Api, settings: Any) -> None:
    settings.MAILHUB_REQUEST_LOG_SECONDS = 30  # the thread waits; this test writes
    for _ in range(5):
        api.tool("list_mailboxes")
    assert RequestRecord.objects.count() == 0
    with CaptureQueriesContext(connection) as done:
        request_log.WRITER.flush()
    assert RequestRecord.objects.count() == 5
    assert len([each for each in done if "INSERT" in each["sql"]]) == 1


def test_records_beyond_the_most_are_counted(
    api: Api, settings: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    settings.MAILHUB_REQUEST_LOG_SECONDS = 30
    monkeypatch.setattr(request_log, "MOST_WAITING", 2)
    for _ in range(5):
        assert api.tool("list_mailboxes").status_code == 200
    request_log.WRITER.flush()
    assert RequestRecord.objects.count() == 2
    assert "'count': 3" in caplog.text


def test_deleted_token_takes_no_other_records_along(
    api: Api, alice: User, mailbox: Mailbox, settings: Any
) -> None:
    settings.MAILHUB_REQUEST_LOG_SECONDS = 30
    make_api(alice, mailbox, name="gone").tool("list_mailboxes")
    api.tool("list_mailboxes")
    ApiToken.objects.filter(name="gone").delete()
    request_log.WRITER.flush()
    assert RequestRecord.objects.get().token.name == "agent"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_failed_thread_is_followed_by_another(api: Api, writer: request_log.Writer) -> None:
    caller = caller_of_token(api.secret, surface="rest")
    wrong: Any = "no number"
    request_log.record(caller, tool="list_mailboxes", outcome="ok", duration_ms=wrong)
    until(lambda: writer._thread is None)
    api.tool("list_mailboxes")
    until(lambda: RequestRecord.objects.count() == 1)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # a fork with threads, as workers do it
def test_forked_process_leaves_the_records_to_its_parent(api: Api, settings: Any) -> None:
    settings.MAILHUB_REQUEST_LOG_SECONDS = 30
    api.tool("list_mailboxes")
    child = os.fork()
    if child == 0:
        os._exit(len(request_log.WRITER._waiting))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    request_log.WRITER.flush()
    assert RequestRecord.objects.count() == 1


CALL_AND_END = """
import django
django.setup()
from accounts.access import request_log
from accounts.access.auth import caller_of_token
caller = caller_of_token({secret!r}, surface="rest")
request_log.record(caller, tool="list_mailboxes", outcome="ok", duration_ms=1)
"""


@pytest.mark.process
def test_process_that_ends_writes_its_records(api: Api, settings: Any, tmp_path: Path) -> None:
    env = environment(tmp_path, {**this_test(), "DJANGO_SETTINGS_MODULE": "mailhub.settings"})
    script = CALL_AND_END.format(secret=api.secret)
    subprocess.run(
        [sys.executable, "-c", script], env=env, cwd=settings.BASE_DIR, check=True, timeout=60
    )
    assert RequestRecord.objects.count() == 1
