"""Deputies become members with a last day, and their approvals of waiting mail no longer count."""

from typing import Any

from django.db import migrations
from django.db.models import F
from django.db.models.functions import Now

from approvals import guards

KEPT = "{deputy} no longer decides for {person} in {mailbox}, but keeps the role {role!r} there."
NO_MANAGER = "{deputy} may approve in {mailbox} until {until}, but its rules ask for managers."


def make_members(apps: Any, schema_editor: Any) -> None:
    """Give each deputy the right to approve for the period, and print what cannot be kept.

    A deputy never managed a mailbox, so nobody becomes a manager. A deputy of a person who does not
    manage a mailbox had a right there only as a member of it.
    """
    memberships = apps.get_model("accounts", "Membership").objects
    policies = apps.get_model("approvals", "ApprovalPolicy").objects
    deputyships = apps.get_model("approvals", "Deputyship").objects.filter(
        ended_at=None, ends_at__gt=Now(), person__is_active=True, deputy__is_active=True
    )
    for lent in deputyships.select_related("person", "deputy").order_by("starts_at", "pk"):
        period = {"starts_at": lent.starts_at, "ends_at": lent.ends_at}
        lenders = memberships.filter(user=lent.person, role__in=("approver", "manager"))
        for lender in lenders.select_related("mailbox"):
            mailbox = lender.mailbox
            by_managers = policies.filter(mailbox=mailbox, approver_role="manager").exists()
            own = memberships.filter(mailbox=mailbox, user=lent.deputy).first()
            names = {
                "deputy": lent.deputy.email,
                "person": lent.person.email,
                "mailbox": mailbox.address,
                "until": f"{lent.ends_at:%Y-%m-%d %H:%M} UTC",
                "role": own.role if own else "",
            }
            if own is None and lender.role == "manager":
                memberships.create(mailbox=mailbox, user=lent.deputy, role="approver", **period)
                if by_managers:
                    print(NO_MANAGER.format(**names))
            elif own is None or own.role == "manager" or (own.role, own.ends_at) == ("approver", None):
                if own and own.role == "approver" and by_managers and lender.role == "manager":
                    print(KEPT.format(**names))
            elif own.ends_at and own.starts_at <= lent.ends_at and lent.starts_at <= own.ends_at:
                own.starts_at = min(own.starts_at, lent.starts_at)
                own.ends_at = max(own.ends_at, lent.ends_at)
                own.save()
            else:
                print(KEPT.format(**names))


def void_approvals(apps: Any, schema_editor: Any) -> None:
    """Take away the signature of decisions of deputies: without one, no mail leaves by them."""
    decisions = apps.get_model("approvals", "Decision").objects
    actions = apps.get_model("approvals", "PendingAction").objects
    by_deputies = decisions.exclude(deputy_of=None)
    approved = by_deputies.filter(verdict="approved", revision=F("action__revision"))
    for action in actions.filter(status="pending", pk__in=approved.values("action")):
        action.approvals_given = decisions.filter(
            action=action,
            verdict="approved",
            revision=action.revision,
            approval_round=action.approval_round,
            deputy_of=None,
        ).count()
        action.save(update_fields=["approvals_given"])
    by_deputies.update(seal="")


class Migration(migrations.Migration):

    dependencies = [
        ('approvals', '0031_restored_rows'),
        ('accounts', '0015_days_of_a_membership'),
    ]

    operations = [
        migrations.RunPython(guards.remove_in_migration, guards.install_in_migration),
        migrations.RunPython(make_members, migrations.RunPython.noop),
        migrations.RunPython(void_approvals, migrations.RunPython.noop),
        migrations.RemoveField(model_name='decision', name='deputy_of'),
        migrations.RemoveField(model_name='revision', name='deputy_of'),
        migrations.DeleteModel(name='Deputyship'),
        migrations.RunPython(guards.install_in_migration, guards.remove_in_migration),
    ]
