from django.db import migrations, models

from approvals import guards


class Migration(migrations.Migration):
    dependencies = [("approvals", "0051_account_of_attempts")]

    operations = [
        migrations.RunPython(guards.remove_in_migration, guards.install_in_migration),
        migrations.AddField("preparation", "gone_at", models.DateTimeField(null=True)),
        migrations.RunPython(guards.install_in_migration, guards.remove_in_migration),
    ]
