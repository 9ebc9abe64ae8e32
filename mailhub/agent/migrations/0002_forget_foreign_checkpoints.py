"""Deletion of earlier checkpoints, which name classes to import and do not prove their writer.

They are deleted unread: the model's memory of open conversations begins again, and the page keeps
the messages.
"""

from typing import Any

from django.db import migrations


def forget(apps: Any, schema_editor: Any) -> None:
    apps.get_model("agent", "Checkpoint").objects.exclude(type="messages").delete()


class Migration(migrations.Migration):
    dependencies = [("agent", "0001_first")]

    operations = [migrations.RunPython(forget, migrations.RunPython.noop)]
