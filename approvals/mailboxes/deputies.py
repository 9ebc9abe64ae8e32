"""Deputies: naming one for a period, and ending it early. Each change has its audit events."""

from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from accounts.audit_hook import record_event
from accounts.infra.compiled_sql import database_now
from accounts.infra.problems import Problem, not_found
from accounts.infra.texts import translatable
from accounts.infra.transactions import retry_if_rolled_back
from accounts.models import Mailbox, Membership, Role, User
from approvals.audit import chain
from approvals.mailboxes.members import record_lost, recount_approvals
from approvals.models import Deputyship
from approvals.rules.deputies import find_lent, in_force

LONGEST = timedelta(days=366)
SHOWN = 10  # deputyships that are over
ANOTHER = translatable("You have a deputy for a part of this period already. End that one first.")
NOTHING_TO_LEND = translatable("You may approve for no mailbox, so you need no deputy.")


def colleagues_of(person: User) -> QuerySet[User]:
    """Return the people with whom a person shares a mailbox; only they can be deputies."""
    shared = Membership.objects.filter(user=person).values("mailbox")
    people = Membership.objects.filter(mailbox__in=shared).values("user")
    return User.objects.filter(pk__in=people, is_active=True).exclude(pk=person.pk)


def lendable(person: User, deputy: User) -> list[Mailbox]:
    """Return the mailboxes on which this deputy would decide for the person."""
    own = Membership.objects.filter(user=person, role__in=Role.at_least(Role.APPROVER))
    opened = Q(role=Role.MANAGER) | Q(
        mailbox__in=Membership.objects.filter(user=deputy).values("mailbox")
    )
    found = Mailbox.objects.filter(pk__in=own.filter(opened).values("mailbox"))
    return list(found.order_by("pk"))


@retry_if_rolled_back
@transaction.atomic
def name_deputy(
    *, person: User, deputy: User, starts_at: datetime, ends_at: datetime, method: str = ""
) -> Deputyship:
    """Let a deputy decide for the person in a period. A start in the past means now.

    Raises `invalid_input` for a period that is over, too long or reversed, `conflict` if the person
    has a deputy then or has nothing to lend, and `forbidden` for somebody who is no colleague.
    """
    # One at a time for each person; the lock keeps two forms from overlapping.
    User.objects.select_for_update(no_key=True).get(pk=person.pk)
    now = database_now()
    starts_at = max(starts_at, now)
    if not starts_at < ends_at <= starts_at + LONGEST:
        raise Problem("invalid_input", "Choose a period that ends later, within one year.")
    if not colleagues_of(person).filter(pk=deputy.pk).exists():
        raise Problem(
            "forbidden", "Only somebody who shares a mailbox with you can be your deputy."
        )
    if (
        Deputyship.objects.filter(person=person, ended_at=None)
        .filter(starts_at__lt=ends_at, ends_at__gt=starts_at)
        .exists()
    ):
        raise Problem("conflict", ANOTHER)
    lent = lendable(person, deputy)
    if not lent:
        raise Problem("conflict", NOTHING_TO_LEND)
    made = Deputyship.objects.create(
        person=person, deputy=deputy, starts_at=starts_at, ends_at=ends_at
    )
    record_event(
        "deputy_named",
        person=person,
        subject=deputy,
        mailboxes=lent,
        method=method,
        deputy=deputy.pk,
        deputy_of=person.pk,
        since=starts_at.isoformat(timespec="seconds"),
        until=ends_at.isoformat(timespec="seconds"),
    )
    return made


@retry_if_rolled_back
@transaction.atomic
def end_deputyship(*, row_id: int, person: User) -> None:
    """End a deputyship early, as the person on leave or as the deputy.

    The deputy's approvals of mail that has not left no longer count. Raises `not_found` for a
    deputyship of other people, and if it is over.
    """
    found = (
        Deputyship.objects.filter(Q(person=person) | Q(deputy=person), pk=row_id)
        .select_related("person", "deputy")
        .first()
    )
    ended = Deputyship.objects.filter(pk=row_id, ended_at=None, ends_at__gt=Now())
    if found is None or not ended.update(ended_at=Now()):
        raise not_found("The deputyship does not exist, or it is over.")
    mailboxes = lendable(found.person, found.deputy)
    # All actions are locked before the first chain, as an approval does, and chains in one order.
    lost = {mailbox.pk: recount_approvals(mailbox, found.deputy_id) for mailbox in mailboxes}
    for mailbox in mailboxes:
        record_lost(mailbox, found.deputy_id, lost[mailbox.pk])
        chain.record(
            mailbox=mailbox,
            event="deputy_ended",
            actor=f"user:{person.pk}",
            deputy=found.deputy_id,
            deputy_of=found.person_id,
        )
    record_event(
        "deputy_ended",
        person=person,
        subject=found.deputy if person == found.person else found.person,
        deputy=found.deputy_id,
        deputy_of=found.person_id,
    )


def deputies_on(mailbox: Mailbox) -> list[Deputyship]:
    """Return the deputyships that give a right on this mailbox now."""
    pairs = {(each.person_id, each.deputy_id) for each in find_lent([mailbox.pk])}
    found = Deputyship.objects.filter(in_force(), person__in=[person for person, _ in pairs])
    return [
        each
        for each in found.select_related("person", "deputy")
        if (each.person_id, each.deputy_id) in pairs
    ]


def deputyships_of(person: User) -> tuple[list[Deputyship], list[Deputyship]]:
    """Return the open deputyships of and for a person, and the newest of those that are over."""
    found = Deputyship.objects.filter(Q(person=person) | Q(deputy=person)).select_related(
        "person", "deputy"
    )
    is_open = Q(ended_at=None, ends_at__gt=Now())
    return list(found.filter(is_open).order_by("starts_at", "pk")), list(
        found.exclude(is_open)[:SHOWN]
    )
