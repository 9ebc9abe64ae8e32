from datetime import timedelta

from django.conf import settings
from django.db import migrations, models
from django.db.models import F

from approvals import guards


def repair(apps, schema_editor):
    """Let mail that would have expired before its send time wait for a person after that time."""
    apps.get_model("approvals", "PendingAction").objects.filter(expires_at__lte=F("send_at")).update(
        expires_at=F("send_at") + timedelta(hours=settings.MAILHUB_ACTION_TTL_HOURS)
    )


class Migration(migrations.Migration):

    dependencies = [
        ('approvals', '0035_encrypted_addresses'),
    ]

    operations = [
        migrations.RunPython(guards.remove_in_migration, guards.install_in_migration),
        migrations.RunPython(repair, migrations.RunPython.noop),
        migrations.AddConstraint(
            model_name='pendingaction',
            constraint=models.CheckConstraint(condition=models.Q(('send_at__isnull', True), ('expires_at__gt', models.F('send_at')), _connector='OR'), name='action_expires_after_it_may_leave'),
        ),
        migrations.RunPython(guards.install_in_migration, guards.remove_in_migration),
    ]
