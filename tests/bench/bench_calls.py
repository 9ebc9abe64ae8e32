"""The CPU of one call, against the CPU of a bare Django that creates a row, served the same way.

`make bench` prints it. CPU hardly depends on what else runs on the machine.

BENCH_QUICK=1 runs a few rounds and writes nothing: it shows that the benchmark still works.
Collected only by name: a test must not measure time.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from approvals.core.states import Status
from approvals.models import PendingAction
from tests.approvals.queues.conftest import Site
from tests.bench.goals import Measured, report
from tests.bench.page import QUICK
from tests.bench.served import ASKED, Web, bare, ours
from tests.conftest import HELLO

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(300),
    pytest.mark.postgres_only,
    pytest.mark.parametrize("kind", ["database"]),
]
BLOCKS, CALLS = (1, 20) if QUICK else (3, 50)
PAGE_CALLS = CALLS // 4
SUBJECTS = iter(range(1_000_000))


@pytest.fixture
def bare_row() -> Iterator[None]:
    """Create the table of the bare application."""
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE TABLE bare_row (id uuid PRIMARY KEY, subject varchar(255) NOT NULL, body text NOT NULL)"
        )
    yield
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE bare_row")


def spent(web: Web, call: Callable[[], object], times: int) -> float:
    """Return the CPU milliseconds of one call."""
    before = web.cpu()
    for _ in range(times):
        call()
    return (web.cpu() - before) * 1000 / times


@pytest.mark.goal("N4")
def test_cpu_of_a_call(site: Site, bare_row: None, tmp_path: Path) -> None:
    with ExitStack() as open_:
        web = open_.enter_context(ours(site, "wsgi"))
        streams = open_.enter_context(ours(site, "asgi"))
        least = open_.enter_context(bare(tmp_path, "wsgi"))
        calls = _calls(site, web, streams, least)
        for _server, call, _times in calls.values():  # fills the caches
            call()
        taken: dict[str, list[float]] = {}
        for _ in range(BLOCKS):
            for name, (server, call, times) in calls.items():
                taken.setdefault(name, []).append(spent(server, call, times))
    cpu = {name: sum(values) / len(values) for name, values in taken.items()}
    assert PendingAction.objects.filter(status=Status.APPROVED).count() == BLOCKS * PAGE_CALLS + 1
    limits = {"propose": 5.0, "approve": 5.0, "read": 2.5, "queue": 18.0}
    report(
        "N4",
        *(
            _row(f"{NAMES[name]}, over a bare create", cpu[name], cpu["create"], most)
            for name, most in limits.items()
        ),
        _row("`list_mailboxes` over MCP, over the same over REST", cpu["mcp"], cpu["read"], 1.3),
    )


NAMES = {
    "propose": "propose over REST",
    "approve": "approve, the POST of the page",
    "read": "`list_mailboxes` over REST",
    "queue": "the queue with 50 rows",
}


def _calls(
    site: Site, web: Web, streams: Web, least: Web
) -> dict[str, tuple[Web, Callable[[], object], int]]:
    create = least.client("/api/rows")
    propose = web.client("/api/v1/tools/send_email", site.api.secret)
    read = web.client("/api/v1/tools/list_mailboxes", site.api.secret)
    mcp = streams.client("/mcp", site.api.secret)
    site.reviewer.client.get("/")
    cookies = {name: morsel.value for name, morsel in site.reviewer.client.cookies.items()}
    browser = web.browser(cookies)
    for _ in range(60):
        site.api.propose(subject=f"Mail {next(SUBJECTS)}")
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")  # as autovacuum does after a while
    waiting = _approvable()

    def new() -> Any:
        subject = {"subject": f"Mail {next(SUBJECTS)}"}
        return propose({**HELLO, "confirm": True, **subject})

    def queue() -> None:
        assert browser("/").count(b'id="row-') == 50

    def approve() -> None:
        action = next(waiting)
        shown = {"digest": action.digest, "revision": action.revision}
        form = {**shown, "csrfmiddlewaretoken": cookies["csrftoken"]}
        browser(f"/actions/{action.pk}/approve/", form)

    assert b"alice@lovelace.example" in mcp(ASKED)
    return {
        "create": (least, lambda: create({"subject": "Hello", "body": "Hello Mira"}), CALLS),
        "propose": (web, new, CALLS),
        "read": (web, lambda: read({}), CALLS),
        "mcp": (streams, lambda: mcp(ASKED), CALLS),
        "queue": (web, queue, PAGE_CALLS),
        "approve": (web, approve, PAGE_CALLS),
    }


def _approvable() -> Iterator[PendingAction]:
    """Yield pending actions, the newest first; each is read when it is needed."""
    while True:
        yield from PendingAction.objects.filter(status=Status.PENDING).order_by("-created_at")[:50]


def _row(what: str, ours: float, floor: float, most: float) -> Measured:
    return Measured(
        what=f"CPU: {what}",
        measured=f"{ours / floor:.2f} ({ours:.1f} / {floor:.1f} ms)",
        limit=f"{most:g}",
        met=ours / floor <= most,
    )
