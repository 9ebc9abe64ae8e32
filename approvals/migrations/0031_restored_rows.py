import uuid

from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.models.functions import Coalesce

from approvals import guards


def take_warnings(apps: Apps, editor: BaseDatabaseSchemaEditor) -> None:
    """Keep that a restore warned of an open action: until now only the audit knew it."""
    events = apps.get_model("approvals", "AuditEvent")
    actions = apps.get_model("approvals", "PendingAction")
    warned = events.objects.filter(
        event__in=("noticed", "returned"), data__code="may_have_been_sent"
    )
    for action_id, at in warned.values_list("action_id", "at").iterator():
        actions.objects.filter(
            pk=action_id, status__in=("pending", "approved", "executing", "unknown")
        ).update(restored_at=at)


class Migration(migrations.Migration):

    dependencies = [
        ("approvals", "0030_archived_events"),
    ]

    operations = [
        migrations.RunPython(guards.remove_in_migration, guards.install_in_migration),
        migrations.AddField(
            model_name="pendingaction",
            name="restored_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name="pendingaction",
            name="unreconciled",
            field=models.BooleanField(default=False),
        ),
        migrations.RunPython(take_warnings, migrations.RunPython.noop),
        migrations.RemoveConstraint(model_name="pause", name="pause_once_a_mailbox"),
        migrations.AddConstraint(
            model_name="pause",
            constraint=models.UniqueConstraint(
                Coalesce("mailbox", models.Value(uuid.UUID(int=0), models.UUIDField())),
                "reason",
                name="pause_once_a_reason",
            ),
        ),
        migrations.RunPython(guards.install_in_migration, guards.remove_in_migration),
    ]
