"""gunicorn forks after it has loaded the application, which starts no thread and no connection."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes.programs import PROJECT, environment, this_test

LOADED = """
import threading
import mailhub.wsgi
from django.db import connections
print(threading.active_count(), sum(each.connection is not None for each in connections.all()))
"""
READY = """
import threading
import mailhub.wsgi
from mailhub import gunicorn_settings
from django.db import connection
gunicorn_settings.when_ready(None)
print(threading.active_count(), len(connection._connection_pools))
"""


def test_loading_starts_no_thread_and_opens_no_connection(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADED],
        cwd=PROJECT,
        env=os.environ
        | {"DJANGO_SETTINGS_MODULE": "tests.settings", "MAILHUB_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert done.stdout.split() == ["1", "0"]


@pytest.mark.postgres_only
@pytest.mark.django_db(transaction=True)
def test_forked_workers_share_no_pool_of_connections(tmp_path: Path) -> None:
    """Two processes on one connection would read each other's answers."""
    done = subprocess.run(
        [sys.executable, "-c", READY],
        cwd=PROJECT,
        env=environment(tmp_path, this_test() | {"DJANGO_SETTINGS_MODULE": "mailhub.settings"}),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (done.returncode, done.stdout.split()) == (0, ["1", "0"]), done.stderr
