"""The load of a database: all of it or nothing, in one transaction."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from django.conf import settings
from django.db import connection, transaction
from django.utils import timezone

from accounts.models import Mailbox, User
from approvals import guards
from approvals.gate.pauses import restored
from tests.load import actions
from tests.load.actions import Chains, Content
from tests.load.people import domain_of, write_mailboxes
from tests.load.writing import Writer

ROWS = 50_000  # that are written together


class AlreadyInUseError(Exception):
    """Raised if the database has people, or a load with this seed."""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """The size of a load. Of the actions, some are pending, held back by a pause, or scheduled."""

    actions: int
    mailboxes: int
    seed: int = 1
    pending: int | None = None
    held: int | None = None
    scheduled: int | None = None

    @property
    def open_counts(self) -> dict[str, int]:
        share = self.actions // 200  # half a per cent
        wanted = {
            "pending": share if self.pending is None else self.pending,
            "held": 5 * share if self.held is None else self.held,
            "scheduled": 5 * share if self.scheduled is None else self.scheduled,
        }
        return wanted | {"finished": max(self.actions - sum(wanted.values()), 0)}


def fill(
    shape: Shape,
    content: Content,
    *,
    beside_others: bool = False,
    report: Callable[[int], None] = lambda done: None,
) -> None:
    """Write a load. Raises AlreadyInUseError if the database has people, unless told so."""
    if User.objects.exists() and not beside_others:
        raise AlreadyInUseError("The database has people already.")
    if Mailbox.objects.filter(address=f"box0@{domain_of(shape.seed)}").exists():
        raise AlreadyInUseError(f"The database has a load with the seed {shape.seed} already.")
    restored.begin_journal()  # while the database has sent nothing
    with transaction.atomic():
        # The guards refuse an action that does not begin as pending. Others see them missing at no
        # time: they are back before the commit.
        guards.remove(connection)
        _write(shape, content, report)
        guards.install(connection)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")


def _write(shape: Shape, content: Content, report: Callable[[int], None]) -> None:
    chosen = Random(shape.seed)  # no secret depends on it
    now, writer, chains = timezone.now(), Writer(), Chains()
    boxes = write_mailboxes(
        writer,
        mailboxes=shape.mailboxes,
        seed=shape.seed,
        chosen=chosen,
        began=now - actions.PERIOD - 2 * actions.LIFETIME,
    )
    planned = actions.plan(
        boxes, chosen, now, kept_days=settings.MAILHUB_RETENTION_DAYS - 1, **shape.open_counts
    )
    for number, each in enumerate(planned, start=1):
        actions.add_action(writer, each, content, chains, chosen, now)
        if len(writer) >= ROWS:
            writer.write()
            report(number)
    writer.write()
    chains.write()
