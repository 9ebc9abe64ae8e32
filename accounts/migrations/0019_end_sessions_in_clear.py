from typing import Any

from django.db import migrations


def end_sessions(apps: Any, schema_editor: Any) -> None:
    """End every session, because its stored content is not encrypted."""
    apps.get_model("sessions", "Session").objects.all().delete()
    apps.get_model("usersessions", "UserSession").objects.all().delete()


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0018_generations"),
        ("sessions", "0001_initial"),
        ("usersessions", "0001_initial"),
    ]

    operations = [migrations.RunPython(end_sessions, migrations.RunPython.noop)]
