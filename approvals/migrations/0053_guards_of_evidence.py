from django.db import migrations

from approvals import guards


class Migration(migrations.Migration):
    dependencies = [("approvals", "0052_gone_preparations")]

    operations = [
        migrations.RunPython(guards.install_in_migration, guards.install_in_migration),
    ]
