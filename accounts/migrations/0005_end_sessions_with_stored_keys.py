from typing import Any

from django.db import migrations


def end_sessions(apps: Any, schema_editor: Any) -> None:
    """End every session, because an older copy of these tables holds their keys in plain text."""
    apps.get_model("sessions", "Session").objects.all().delete()
    apps.get_model("usersessions", "UserSession").objects.all().delete()


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0004_shared_quotas"),
        ("sessions", "0001_initial"),
        ("usersessions", "0001_initial"),
    ]

    operations = [migrations.RunPython(end_sessions, migrations.RunPython.noop)]
