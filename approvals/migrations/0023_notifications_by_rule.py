from django.db import migrations, models

from approvals import guards


def begin_at_present(apps, schema_editor):
    """Earlier events notify nobody."""
    newest = apps.get_model("approvals", "AuditEvent").objects.order_by("-pk").first()
    apps.get_model("approvals", "NotificationCursor").objects.get_or_create(
        pk=1, defaults={"event": newest.pk if newest else 0}
    )


class Migration(migrations.Migration):

    dependencies = [
        ('approvals', '0022_deputies'),
    ]

    operations = [
        migrations.RunPython(guards.remove_in_migration, guards.install_in_migration),
        migrations.AddField(
            model_name='approvalpolicy',
            name='notify_content',
            field=models.CharField(choices=[('link', 'only a link'), ('subject', 'the sender and the subject'), ('preview', 'a preview of the text')], default='preview', max_length=10),
        ),
        migrations.AddField(
            model_name='approvalpolicy',
            name='notify_urgent',
            field=models.BooleanField(default=False),
        ),
        migrations.RunPython(begin_at_present, migrations.RunPython.noop),
        migrations.RunPython(guards.install_in_migration, guards.remove_in_migration),
    ]
