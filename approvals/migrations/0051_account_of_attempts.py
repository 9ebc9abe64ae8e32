from django.db import migrations, models

from approvals import guards

ACCOUNT = models.CharField(db_default="", default="", max_length=64)


class Migration(migrations.Migration):
    dependencies = [("approvals", "0050_webhooks_of_all_events")]

    operations = [
        migrations.RunPython(guards.remove_in_migration, guards.install_in_migration),
        migrations.AddField("attempt", "account", ACCOUNT),
        migrations.AddField("preparation", "account", ACCOUNT),
        migrations.RunPython(guards.install_in_migration, guards.remove_in_migration),
    ]
