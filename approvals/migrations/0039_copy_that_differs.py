from django.db import migrations, models

from approvals import guards


class Migration(migrations.Migration):

    dependencies = [
        ("approvals", "0038_proofs_of_attempts"),
    ]

    operations = [
        migrations.RunPython(guards.remove_in_migration, guards.install_in_migration),
        migrations.AddField(
            model_name="pendingaction",
            name="differs_in_sent",
            field=models.JSONField(null=True),
        ),
        migrations.RunPython(guards.install_in_migration, guards.remove_in_migration),
    ]
