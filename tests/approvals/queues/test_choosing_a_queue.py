"""One variable selects the queue; an incomplete choice stops the start, and the other queues are
not loaded.
"""

from pathlib import Path
from typing import Any

import pytest
from django.core.checks import Tags, run_checks
from django.core.management import CommandError, call_command
from django.db import connection

from approvals.checks import check_kinds, check_queue_server
from mailhub import environment
from tests.support.processes.programs import manage
from tests.support.processes.template import KEYS


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"MAILHUB_QUEUE": "rq"}, "MAILHUB_QUEUE=rq needs REDIS_URL"),
        ({"MAILHUB_QUEUE": "celery"}, "MAILHUB_QUEUE=celery needs CELERY_BROKER_URL or REDIS_URL"),
        ({"MAILHUB_QUEUE": "rq", "REDIS_URL": "localhost:6379"}, "REDIS_URL: must start with"),
        (
            {"MAILHUB_QUEUE": "celery", "CELERY_BROKER_URL": "sqs://"},
            "CELERY_BROKER_URL: must start with",
        ),
    ],
)
def test_incomplete_choice_stops_the_start_with_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, str], named: str
) -> None:
    for name in ("DATABASE_URL", "MAILHUB_QUEUE", "REDIS_URL", "CELERY_BROKER_URL"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {**KEYS, "MAILHUB_HOME": str(tmp_path), **changes}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as stopped:
        environment.load()
    (line,) = str(stopped.value.code).splitlines()
    assert line.startswith("mailhub cannot start: ")
    assert named in line


@pytest.mark.parametrize(
    ("kind", "missing"), [("rq", "REDIS_URL"), ("celery", "CELERY_BROKER_URL")]
)
def test_system_check_names_missing_parts_of_a_queue(
    settings: Any, kind: str, missing: str
) -> None:
    settings.MAILHUB_QUEUE = kind
    setattr(settings, missing, "")
    (error,) = check_queue_server()
    assert (error.id, missing in str(error.msg), missing in str(error.hint)) == (
        "approvals.E003",
        True,
        True,
    )
    setattr(settings, missing, "redis://127.0.0.1:1/0")
    assert check_queue_server() == []


def test_system_check_names_a_queue_that_cannot_be_imported(settings: Any) -> None:
    settings.MAILHUB_QUEUES = {"database": "approvals.queues.nowhere.Queue"}
    assert [error.id for error in check_kinds()] == ["approvals.E001"]
    settings.MAILHUB_QUEUE = "pigeon"
    assert [error.id for error in check_kinds()] == ["approvals.E002"]


# test_loaded_modules.py shows that the queue in the database loads none of them.
@pytest.mark.process
@pytest.mark.parametrize(
    ("changes", "loaded"),
    [
        ({"MAILHUB_QUEUE": "rq", "REDIS_URL": "redis://127.0.0.1:1/0"}, "['redis', 'rq']"),
        pytest.param(
            {"MAILHUB_QUEUE": "celery", "CELERY_BROKER_URL": "amqp://127.0.0.1:1"},
            "['celery', 'kombu', 'redis']",
            marks=pytest.mark.long,
        ),
    ],
)
def test_only_the_chosen_queue_is_loaded(
    tmp_path: Path, changes: dict[str, str], loaded: str
) -> None:
    looks = (
        "import sys; from approvals.core.queue import queue; import mailhub.urls; queue();"
        "print(sorted({'rq', 'celery', 'kombu', 'redis', 'django_rq', 'psycopg', 'dns'} & set(sys.modules)))"
    )
    done = manage(tmp_path, "shell", "--verbosity=0", "-c", looks, **KEYS | changes)
    assert (done.stdout.strip(), done.stderr) == (loaded, "")


def test_worker_of_another_queue_does_not_start() -> None:
    with pytest.raises(CommandError, match=r"MAILHUB_QUEUE is database, not rq\."):
        call_command("rqworker")


@pytest.mark.postgres_only
@pytest.mark.django_db(transaction=True)
def test_postgresql_losing_commits_is_warned_about() -> None:
    """Check settings that lose commits. The test server is fast and not durable; one of these can
    be set for a session.
    """

    def named() -> list[str]:
        found = run_checks(tags=[Tags.database], databases=["default"])
        return [each.msg.split()[3] for each in found if each.id == "approvals.W001"]

    with connection.cursor() as cursor:
        try:
            assert set(named()) == {"fsync", "full_page_writes", "synchronous_commit"}
            cursor.execute("SET synchronous_commit = on")
            assert set(named()) == {"fsync", "full_page_writes"}
        finally:
            cursor.execute("RESET synchronous_commit")


@pytest.mark.sqlite_only
@pytest.mark.django_db(transaction=True)
def test_sqlite_losing_commits_is_warned_about() -> None:
    def warnings() -> list[str]:
        found = run_checks(tags=[Tags.database], databases=["default"])
        return [each.id for each in found if each.id == "approvals.W001"]

    with connection.cursor() as cursor:
        try:
            cursor.execute("PRAGMA synchronous=NORMAL")
            assert warnings() == ["approvals.W001"]
            cursor.execute("PRAGMA synchronous=FULL")
            assert warnings() == []
        finally:
            cursor.execute("PRAGMA synchronous=OFF")
