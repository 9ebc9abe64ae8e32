from django.db import migrations, models

from approvals import guards


def note_rulings(apps, schema_editor):
    """Say when a person ruled: until now only the end of the attempt told it."""
    attempts = apps.get_model("approvals", "Attempt").objects.using(schema_editor.connection.alias)
    attempts.filter(verdict="not_sent", evidence="person").update(ruled_at=models.F("ended_at"))


class Migration(migrations.Migration):
    dependencies = [("approvals", "0009_seals")]

    operations = [
        migrations.RunPython(guards.remove_in_migration, guards.install_in_migration),
        migrations.AddField("attempt", "notes", models.JSONField(null=True)),
        migrations.AddField("attempt", "ruled_at", models.DateTimeField(null=True)),
        migrations.RunPython(note_rulings, migrations.RunPython.noop),
        migrations.RemoveConstraint("attempt", "attempt_one_accepted"),
        migrations.RemoveConstraint("pendingaction", "action_approved_needs_decisions"),
        migrations.AddConstraint(
            "pendingaction",
            models.CheckConstraint(
                condition=models.Q(
                    models.Q(("status__in", ("approved", "executing", "failed", "unknown")), _negated=True),
                    ("approvals_given__gte", models.F("approvals_needed")),
                    _connector="OR",
                ),
                name="action_approved_needs_decisions",
            ),
        ),
        migrations.RunPython(guards.install_in_migration, guards.remove_in_migration),
    ]
