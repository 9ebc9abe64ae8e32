"""gunicorn forks after it has loaded the application, which starts no thread and no connection."""

import os
import subprocess
import sys
from pathlib import Path

from tests.support.processes.programs import PROJECT

LOADED = """
import threading
import mailhub.wsgi
from django.db import connections
print(threading.active_count(), sum(each.connection is not None for each in connections.all()))
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
