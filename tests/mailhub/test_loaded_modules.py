"""No process loads libraries that it does not use: some are not installed where it runs."""

from pathlib import Path

import pytest

from tests.support.processes.programs import manage
from tests.support.processes.template import KEYS

pytestmark = pytest.mark.process

# HTTP, sign-ins, parsers of HTML, figures and the admin pages: each is for pages, for a provider
# or for one kind of mail.
HEAVY = (
    *("requests", "urllib3", "charset_normalizer", "chardet", "msal", "googleapiclient", "aiohttp"),
    *("fido2", "lxml", "inscriptis", "turbohtml", "tinycss2", "prometheus_client", "pypdf", "docx"),
    *("openpyxl", "icalendar", "apprise", "pywebpush", "zxcvbn", "ninja", "accounts.admin"),
    *("allauth.account.forms", "django.contrib.auth.forms", "tools.providers.gmail"),
    *("tools.providers.graph", "boto3", "botocore", "storages"),
)
# The library of MCP brings httpx2, starlette and uvicorn itself.
ONLY_MCP = ("mcp", "httpx2", "starlette", "uvicorn", "rq", "celery", "redis")
# The imports of a worker that has begun, with a mailbox at an IMAP server.
WORKER = (
    "from approvals.management.commands import worker; from approvals.queues.workers import prepare;"
    "prepare(); import tools.providers.imap"
)
# All pages. Libraries for HTTP come with the first sign-in of a program or the first chat channel.
# The sandbox and the chat are not in the image that serves the pages. The queue is in the database.
PAGES = (
    "from approvals.core.queue import queue; queue(); from django.urls import get_resolver;"
    "[each.url_patterns for each in get_resolver().url_patterns if hasattr(each, 'url_patterns')]"
)
ONLY_ELSEWHERE = (
    "requests",
    "urllib3",
    "pymap",
    "aiosmtpd",
    "mailhub.first_run.prepare",
    "langchain_core",
    "langgraph",
    "anthropic",
    *("rq", "celery", "kombu", "redis", "django_rq", "psycopg", "dns"),
)
STDIO = "from tools.management.commands import mcp; import tools.providers.imap"


@pytest.mark.parametrize(
    ("program", "heavy"), [(WORKER, HEAVY + ONLY_MCP), (STDIO, HEAVY), (PAGES, ONLY_ELSEWHERE)]
)
def test_process_loads_only_what_it_uses(
    tmp_path: Path, program: str, heavy: tuple[str, ...]
) -> None:
    loaded = f"{program}; import sys; print([each for each in {heavy} if each in sys.modules])"
    done = manage(tmp_path, "shell", "--verbosity=0", "-c", loaded, **KEYS)
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr
