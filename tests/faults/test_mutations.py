"""With each guard removed in turn, in a copy of the tree, the proof must fail: otherwise it would
prove nothing.
"""

import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.faults.apis import LOST_ANSWERS as LOST_API_ANSWERS
from tests.faults.plan import MailboxKind, Plan, QueueKind, Setup
from tests.faults.proof import prove
from tests.faults.smtp import LOST_ANSWERS, SLOW_ANSWER, SLOW_CONTENT
from tests.mutants import places
from tests.support.processes.programs import PROJECT

pytestmark = [pytest.mark.process, pytest.mark.long, pytest.mark.timeout(600)]
TREE = (
    "manage.py",
    "mailhub",
    "accounts",
    "approvals",
    "tools",
    "templates",
    "tests",
    "pyproject.toml",
)
Edit = tuple[str, str, str]


@dataclass(frozen=True, kw_only=True)
class Mutation:
    """Removed guards, each as file, text and replacement; the run in which that hurts, and the
    expected findings.
    """

    edits: tuple[Edit, ...]
    plan: Plan
    finds: frozenset[str]
    queue: QueueKind = "database"
    undo_seconds: int = 1
    kinds: tuple[MailboxKind, ...] = ("imap",)


def trouble(**changes: object) -> Plan:
    """Return a directed run: many repetitions of one thing, and a short healing, because much may
    never heal.
    """
    usual = {
        "seconds": 20,
        "proposals": 100,
        "calm": True,
        "heal_seconds": 25,
        "fault_rate": 0,
        "blows": {},
    }
    return Plan(**{**usual, "blow_every": (1.0, 2.0), **changes})  # type: ignore[arg-type]


KILLED_ON_THE_WIRE = trouble(faults=(SLOW_ANSWER,), fault_rate=0.8, blows={"worker killed": 1})
EXECUTION, READING = "approvals/gate/execute.py", "approvals/gate/load.py"
JOURNAL = "approvals/gate/pauses/restored.py"
ON_DISK: tuple[QueueKind, ...] = ("database", "rq", "celery")
CONDITIONS = "approvals/gate/rules/conditions.py"
CONNECTING = "accounts/connect/connecting.py"
OF_MAILBOX = 'Q(generation=OuterRef("mailbox_generation"))'

MUTATIONS = {
    "a lease that ends on the wire counts as not sent": Mutation(
        edits=(
            (
                "approvals/gate/overdue.py",
                "attempt.phase == Attempt.Phase.WIRE_STARTED",
                "False",
            ),
        ),
        plan=KILLED_ON_THE_WIRE,
        # A worker that starts afterwards looks in Sent, finds the mail, and pauses everything.
        finds=frozenset({"sent_twice", "was_sent_and_not_said"}),
    ),
    "the wire is not said to have started": Mutation(
        edits=((JOURNAL, "phase=Attempt.Phase.WIRE_STARTED, ", ""),),
        plan=KILLED_ON_THE_WIRE,
        # If a worker is killed during the first mail, the send journal pauses everything before the
        # database has anything to refuse.
        finds=frozenset({"database_refused", "was_sent_and_not_said"}),
    ),
    "the wire starts when the answer is there": Mutation(
        edits=(
            ("tools/providers/imap/smtp.py", "        wire_started()\n", "        pass\n"),
            (
                "tools/providers/imap/smtp.py",
                "    if code // 100 != 2:\n        leave(smtp)\n    return",
                "    wire_started()\n    return",
            ),
        ),
        plan=KILLED_ON_THE_WIRE,
        finds=frozenset({"sent_and_not_journaled"}),  # and the journal is what makes it wait
    ),
    "a lost answer is tried again": Mutation(
        edits=(
            (
                "tools/sending/kinds.py",
                "proof = error.proof if isinstance(error, NotSent) else None",
                "proof = BEFORE_WIRE",
            ),
        ),
        plan=trouble(faults=LOST_ANSWERS, fault_rate=0.5),
        finds=frozenset({"sent_twice"}),
    ),
    "a lost answer is tried again, of Microsoft 365": Mutation(
        edits=(
            (
                "tools/sending/kinds.py",
                "proof = error.proof if isinstance(error, NotSent) else None",
                "proof = BEFORE_WIRE",
            ),
        ),
        plan=trouble(api_faults=LOST_API_ANSWERS, fault_rate=0.5),
        finds=frozenset({"sent_twice"}),
        kinds=("graph at once",),
    ),
    "the call that sends is repeated like a read": Mutation(
        edits=(
            (
                "tools/providers/gmail/client.py",
                "            return self._once(name, build, sending=wire_started)",
                "            once = functools.cache(wire_started)\n"
                "            return self._retry(lambda: self._once(name, build, sending=once), patient=True)",
            ),
        ),
        plan=trouble(api_faults=LOST_API_ANSWERS, fault_rate=0.5),
        finds=frozenset({"called_again"}),
        kinds=("gmail",),
    ),
    "unknown leads back to approved": Mutation(
        edits=(
            (
                "approvals/gate/outcome.py",
                "return Next(status=Status.UNKNOWN,",
                "return Next(status=Status.APPROVED,",
            ),
        ),
        plan=trouble(faults=LOST_ANSWERS, fault_rate=0.5),
        finds=frozenset({"database_refused"}),
    ),
    "unknown leads back to approved, on SQLite": Mutation(
        edits=(
            (
                "approvals/gate/outcome.py",
                "return Next(status=Status.UNKNOWN,",
                "return Next(status=Status.APPROVED,",
            ),
        ),
        plan=trouble(faults=LOST_ANSWERS, fault_rate=0.5),
        finds=frozenset({"database_refused"}),
        queue="database on SQLite",
    ),
    "the digest is not compared": Mutation(
        edits=(
            (
                READING,
                "if not action.digest == self.digest == digest_of(self.payload):",
                "if False:",
            ),
        ),
        plan=trouble(blows={"content altered in the database": 1}),
        finds=frozenset({"other_bytes_than_stored"}),
    ),
    "the bytes are not compared": Mutation(
        edits=((READING, "if hashlib.sha256(content).hexdigest() != sha256:", "if False:"),),
        plan=trouble(blows={"bytes altered in the database": 1}),
        finds=frozenset({"other_bytes_than_stored"}),
    ),
    "one person is always enough": Mutation(
        edits=(("approvals/gate/decide.py", "if given >= needed:", "if given >= 1:"),),
        plan=trouble(),
        finds=frozenset({"database_refused"}),
    ),
    "the claim does not look at the state": Mutation(
        edits=(
            (EXECUTION, "        may_execute_now(),\n        digest=", "        digest="),
            (EXECUTION, "if not action.has_order():", "if False:"),
            (EXECUTION, " or read.action.status != Status.APPROVED", ""),
            (
                EXECUTION,
                "if not PendingAction.objects.filter(may_execute_now(), pk=action_id).exists():",
                "if False:",
            ),
        ),
        plan=trouble(blows={"jobs doubled": 1}, blow_every=(0.1, 0.3)),
        finds=frozenset({"database_refused"}),
    ),
    "what is old ends by a clock that jumps": Mutation(
        edits=(
            (
                "approvals/worker/maintenance.py",
                "return not resident or CLOCK.is_steady()",
                "return True",
            ),
        ),
        plan=trouble(blows={"database's clock jumped": 1}, seconds=40),
        finds=frozenset({"expired"}),
        undo_seconds=5,
    ),
    "the worker's clock says when a mail may leave": Mutation(
        edits=(
            (CONDITIONS, "return Q(not_before__lte=Now())", "return Q(not_before__isnull=False)"),
            (
                EXECUTION,
                "    if not action.has_order():",
                "    from django.utils.timezone import now\n\n"
                "    if action.not_before > now():\n        return None\n"
                "    if not action.has_order():",
            ),
        ),
        plan=trouble(blows={"worker's clock jumped": 1}),
        finds=frozenset({"sent_early"}),
    ),
    "an approval outlives its token": Mutation(
        edits=((CONDITIONS, '~Q(generation=OuterRef("token_generation"))', "Q(pk=None)"),),
        plan=trouble(blows={"token revoked": 1, "program's sign-in ended": 1}),
        # The worker tells the news of the token, but no longer gives the mail back.
        finds=frozenset({"sent_after_withdrawal", "sent_without_approval"}),
        undo_seconds=5,
    ),
    "an approval outlives the connection of its mailbox": Mutation(
        edits=(
            (CONDITIONS, f"~{OF_MAILBOX}", "Q(pk=None)"),
            (EXECUTION, "if action.mailbox.generation != action.mailbox_generation:", "if False:"),
        ),
        plan=trouble(blows={"connection of a mailbox changed": 1}, seconds=40),
        finds=frozenset({"sent_after_withdrawal"}),
        undo_seconds=15,
    ),
    "a mailbox that is connected again stays ended": Mutation(
        edits=((CONNECTING, "    mailbox.status = Mailbox.Status.ACTIVE\n", ""),),
        plan=trouble(blows={"mailbox's sign-in ended": 1}),
        finds=frozenset({"stuck"}),
        kinds=("gmail",),
    ),
    "a mail leaves although its mark is not written": Mutation(
        edits=(
            (
                EXECUTION,
                "    except OSError as error:\n        raise NotGranted(error) from error\n    if not",
                "    except Exception:\n        granted = True\n    if not",
            ),
        ),
        plan=trouble(faults=(SLOW_CONTENT,), fault_rate=0.8, blows={"database read-only": 1}),
        finds=frozenset({"sent_and_not_journaled"}),
    ),
    **{
        f"half a line of the journal counts, on {queue}": Mutation(
            edits=((JOURNAL, "if os.pread(self._file, len(line), size) != line:", "if False:"),),
            plan=trouble(blows={"disk full": 1}),
            finds=frozenset({"sent_and_not_journaled"}),
            queue=queue,
        )
        for queue in ON_DISK
    },
    "the audit is written without its lock": Mutation(
        edits=(
            (
                "approvals/audit/chain.py",
                "AuditChain.objects.select_for_update(no_key=True)",
                "AuditChain.objects",
            ),
        ),
        plan=trouble(),
        finds=frozenset({"database_refused", "audit"}),
    ),
}


@dataclass(frozen=True, kw_only=True)
class Moment:
    """A guard of one moment, too rare for a run: without it, the test of the moment fails."""

    edit: Edit
    tests: str
    chosen: str


DOUBTS, LATE = "tests/approvals/test_doubts.py", "tests/faults/test_late_orders.py"
MOMENTS = {
    "a late accepted closes nothing": Moment(
        edit=(
            "approvals/gate/outcome.py",
            "return accepted and action.status in OPEN and",
            "return False and",
        ),
        tests="tests/approvals/test_late_answers.py",
        chosen="late_acceptance",
    ),
    "an exception after the wire counts as not sent": Moment(
        edit=(
            EXECUTION,
            'on_wire=claim.on_wire.is_set(), code="lease_lost"',
            'on_wire=False, code="lease_lost"',
        ),
        tests=DOUBTS,
        chosen="exception_after_wire",
    ),
    "only a word, and no longer said": Moment(
        edit=(
            "approvals/gate/reconcile.py",
            'Q(phase=Attempt.Phase.WIRE_STARTED, proof="")',
            'Q(phase=Attempt.Phase.WIRE_STARTED, proof="") & ~Q(evidence="person")',
        ),
        tests=DOUBTS,
        chosen="may_have_been_sent_in",
    ),
    "a ruling is about any attempt": Moment(
        edit=("approvals/gate/rulings.py", "if action.fence != fence:", "if False:"),
        tests=DOUBTS,
        chosen="ruling_about_an_earlier",
    ),
    "Sent is not looked at before a second copy": Moment(
        edit=(EXECUTION, "if claim.fence > 1:", "if False:"), tests=DOUBTS, chosen="found_in_sent"
    ),
    "a draft that lies there is proof": Moment(
        edit=("tools/sending/kinds.py", "if not provider.destroy(notes):", "if False:"),
        tests=LATE,
        chosen="late_order",
    ),
    "a draft of Microsoft 365 goes whoever edited it": Moment(
        edit=("tools/providers/graph/evidence.py", "if not self.is_unsent(prepared):", "if False:"),
        tests=LATE,
        chosen="never_deleted",
    ),
    "a draft of Microsoft 365 is moved to the bin": Moment(
        edit=(
            "tools/providers/graph/evidence.py",
            '"POST", f"{place}/permanentDelete"',
            '"DELETE", path_of(prepared.draft)',
        ),
        tests=LATE,
        chosen="late_order",
    ),
    "tools reach a prepared draft": Moment(
        edit=(
            "tools/sending/prepared.py",
            "if any(",
            "if False and any(",
        ),
        tests="tests/security/test_prepared_drafts.py",
        chosen="prepared_draft_at_gmail",
    ),
    "what is found in Sent is not compared": Moment(
        edit=(
            "tools/sending/kinds.py",
            "changed = provider.differs_in_sent(approved.message_id, envelope)",
            "changed = ()",
        ),
        tests="tests/faults/test_found_in_sent.py",
        chosen="microsoft",
    ),
    "the database lets an author approve": Moment(
        edit=(
            "approvals/guards/rules.py",
            "(NOT rules.self_approval OR rules.approvals_needed > 1)",
            "1 = 0",
        ),
        tests="tests/approvals/test_database_refuses.py",
        chosen="own_approval_of_an_author",
    ),
}

WITHOUT_FENCE: Edit = (
    "approvals/gate/outcome.py",
    "if action.fence != fence or action.status not in",
    "if action.status not in",
)


def without(edits: Iterable[Edit], tree: Path) -> Path:
    """Copy the tree without the guard. Fail if the text is not there exactly once."""
    tree.mkdir()
    for name in TREE:
        if (PROJECT / name).is_dir():
            shutil.copytree(
                PROJECT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__")
            )
        else:
            shutil.copy(PROJECT / name, tree / name)
    for name, old, new in edits:
        source = (tree / name).read_text()
        (tree / name).write_text(places.replace(source, old, new))
    return tree


@pytest.mark.parametrize("name", MUTATIONS)
def test_proof_fails_without_a_guard(name: str, tmp_path: Path) -> None:
    mutation = MUTATIONS[name]
    tree = without(mutation.edits, tmp_path / "tree")
    home = tmp_path / "home"
    home.mkdir()
    setup = Setup(
        queue=mutation.queue,
        seed=7,
        tree=tree,
        kinds=mutation.kinds,
        undo_seconds=mutation.undo_seconds,
    )
    report = prove(setup, mutation.plan, home)
    assert {violation.name for violation in report.violations} & mutation.finds, sorted(
        map(str, report.violations)
    )


def test_same_trouble_breaks_nothing_with_every_guard(tmp_path: Path) -> None:
    report = prove(
        Setup(queue="database", seed=7), replace(KILLED_ON_THE_WIRE, heal_seconds=120), tmp_path
    )
    assert not report.violations, sorted(map(str, report.violations))


def test_late_outcome_test_fails_without_the_fence(tmp_path: Path) -> None:
    """Check the test of the moment itself: two attempts of one action at one moment are too rare to
    wait for.
    """
    tree = without((WITHOUT_FENCE,), tmp_path / "tree")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "tests/approvals/test_leases.py",
        "-q",
        "-k",
        "old_fence_changes",
    ]
    done = subprocess.run(
        command, cwd=tree, capture_output=True, text=True, timeout=300, check=False
    )
    assert "test_old_fence_changes_nothing_while_the_new_one_sends" in done.stdout
    assert done.returncode == 1, done.stdout


@pytest.mark.parametrize("name", MOMENTS)
def test_moment_test_fails_without_its_guard(name: str, tmp_path: Path) -> None:
    moment = MOMENTS[name]
    tree = without((moment.edit,), tmp_path / "tree")
    command = [
        sys.executable,
        "-m",
        "pytest",
        moment.tests,
        "-q",
        "-p",
        "no:cacheprovider",
        "-k",
        moment.chosen,
    ]
    done = subprocess.run(
        command, cwd=tree, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 1, done.stdout
    assert "failed" in done.stdout.splitlines()[-1]
