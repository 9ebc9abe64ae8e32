from django.db import migrations

from approvals import guards


class Migration(migrations.Migration):
    dependencies = [("approvals", "0001_first")]

    operations = [migrations.RunPython(guards.install_in_migration, guards.remove_in_migration)]
