"""The person who takes care of an action. An assignment does not change who may decide."""

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet

from accounts.infra.database import database_now
from accounts.infra.problems import Problem
from accounts.models import Membership, Role, User
from approvals.audit import chain
from approvals.core.states import FINAL
from approvals.gate.find import lock_action
from approvals.gate.rights import may_decide
from approvals.models import Assignment, PendingAction
from approvals.outbound.notifications import outbox


@transaction.atomic
def assign(*, action: PendingAction, person: User, to: User | None) -> None:
    """Assign an open action to a member who may decide, or to nobody; notify that person.

    Raises `forbidden` if `person` may not decide, `invalid_input` if `to` may not, and `conflict`
    if the action has ended.
    """
    if not may_decide(person, action.mailbox):
        raise Problem("forbidden", "Only people who may approve in this mailbox assign mails.")
    if to is not None and to not in find_assignable(action):
        raise Problem("invalid_input", "Choose a person who may approve in this mailbox.")
    if lock_action(action.pk).status in FINAL:
        raise Problem("conflict", "This has ended, so nobody has to take care of it.")
    if to is None:
        changed = bool(Assignment.objects.filter(action=action).delete()[0])
    else:
        changed = not Assignment.objects.filter(action=action, person=to).exists()
        Assignment.objects.update_or_create(action=action, defaults={"person": to})
    if not changed:
        return
    event = chain.record(
        mailbox=action.mailbox_id,
        event="unassigned" if to is None else "assigned",
        actor=f"user:{person.pk}",
        action_id=action.pk,
        to=f"user:{to.pk}" if to else "nobody",
    )
    if to is not None and to.pk != person.pk:
        # Each assignment is news, also a second one to the same person.
        said = outbox.Event(
            stage=outbox.Stage.ASSIGNED,
            people=[to.pk],
            action_id=action.pk,
            occasion=str(event.sequence),
        )
        outbox.add([said], now=database_now())


def find_assigned(action: PendingAction) -> User | None:
    """Return the person who takes care of an action; None if that person may no longer decide."""
    found = current_assignments().filter(action=action).select_related("person").first()
    return found.person if found else None


def current_assignments() -> QuerySet[Assignment]:
    """Return the assignments to people who may still decide in the mailbox of the action."""
    may_decide = Membership.objects.filter(
        mailbox=OuterRef("action__mailbox"),
        user=OuterRef("person"),
        role__in=Role.at_least(Role.APPROVER),
    )
    return Assignment.objects.filter(Exists(may_decide))


def find_assignable(action: PendingAction) -> list[User]:
    """Return the people to whom an action can be assigned."""
    own = Membership.objects.filter(
        mailbox=action.mailbox_id, role__in=Role.at_least(Role.APPROVER)
    )
    people = User.objects.filter(pk__in=own.values("user"), is_active=True)
    return list(people.order_by("email"))
