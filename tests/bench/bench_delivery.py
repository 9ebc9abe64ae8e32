"""The time from a person's approval to the acceptance by a mail server that is 20 ms away, against
plain smtplib measured in turn in the same run.

BENCH_QUICK=1 runs a few rounds and writes nothing: it shows that the benchmark still works.
Collected only by name: a test must not measure time.
"""

import statistics
from functools import partial
from smtplib import SMTP

import pytest

from accounts.models import User
from approvals.core.states import Status
from approvals.gate import decide
from approvals.models import PendingAction
from tests.approvals.queues.conftest import Site, agent_of
from tests.bench import floors
from tests.bench.far_smtp import Arrivals, FarSmtp
from tests.bench.goals import Measured, report
from tests.bench.page import QUICK
from tests.support.processes.programs import this_test, until
from tests.support.servers.sandbox import SandboxServer

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(300),
    pytest.mark.postgres_only,
    pytest.mark.parametrize("kind", ["database"]),
]
ROUNDS, WARM_UP = (4, 1) if QUICK else (40, 5)
P50_MS, P95_MS, KEPT_MS = 8, 20, 10


def approve(action: PendingAction, person: User) -> None:
    decide.approve(
        action_id=action.pk, person=person, digest=action.digest, revision=action.revision
    )


def is_settled(action: PendingAction) -> bool:
    return PendingAction.objects.filter(
        pk=action.pk, status=Status.SUCCEEDED, settle_at=None
    ).exists()


def p95(values: list[float]) -> float:
    return sorted(values)[min(int(len(values) * 0.95), len(values) - 1)]


@pytest.mark.goal("N5")
def test_time_from_approval_to_acceptance(site: Site, sandbox: SandboxServer, alice: User) -> None:
    """Measure in each round smtplib and a mailbox, on a fresh connection and on the kept one."""
    fresh: list[float] = []
    kept: list[float] = []
    ours_fresh: list[float] = []
    ours_kept: list[float] = []
    with FarSmtp() as smtp, floors.signed_in(smtp.port) as connected:
        mailboxes = [
            agent_of(alice, sandbox, smtp, address=f"alice.{n}@lovelace.example")
            for n in range(ROUNDS + WARM_UP)
        ]
        # The first mail of a mailbox needs a connection, the second one finds it.
        pairs = [
            [PendingAction.objects.get(pk=api.propose(subject=f"Mail {n}")) for n in range(2)]
            for api in mailboxes
        ]
        arrivals = Arrivals(smtp)
        site.environment |= this_test()  # which names the far server
        site.worker()
        for pair in pairs:
            fresh.append(arrivals.after(partial(floors.send, smtp.port)))
            kept.append(arrivals.after(partial(check_and_send, connected)))
            for action, taken in zip(pair, (ours_fresh, ours_kept), strict=True):
                taken.append(arrivals.after(partial(approve, action, alice)))
                until(partial(is_settled, action))
        assert len(smtp.ledger) == 4 * len(pairs), "each left once"
    report("N5", *_rows(*(each[WARM_UP:] for each in (fresh, ours_fresh, kept, ours_kept))))


def check_and_send(connected: SMTP) -> None:
    """Send over a kept connection after a sign that it lives, as mailhub does too."""
    connected.rset()
    connected.sendmail(floors.SENDER, [floors.RECIPIENT], floors.letter())


def _rows(
    fresh: list[float], ours: list[float], kept: list[float], ours_kept: list[float]
) -> list[Measured]:
    over50 = statistics.median(ours) - statistics.median(fresh)
    over95 = p95(ours) - p95(fresh)
    over_kept = statistics.median(ours_kept) - statistics.median(kept)
    return [
        Measured(
            what="first mail of a mailbox, p50: ms over smtplib on a fresh connection",
            measured=f"{over50:+.1f} ({statistics.median(ours):.1f} / {statistics.median(fresh):.1f})",
            limit=f"+{P50_MS}",
            met=over50 <= P50_MS,
        ),
        Measured(
            what="the same, p95",
            measured=f"{over95:+.1f} ({p95(ours):.1f} / {p95(fresh):.1f})",
            limit=f"+{P95_MS}",
            met=over95 <= P95_MS,
        ),
        Measured(
            what="the next mail of a mailbox, p50: ms over smtplib on a kept connection, with RSET first",
            measured=f"{over_kept:+.1f} ({statistics.median(ours_kept):.1f} / {statistics.median(kept):.1f})",
            limit=f"+{KEPT_MS}",
            met=over_kept <= KEPT_MS,
        ),
    ]
