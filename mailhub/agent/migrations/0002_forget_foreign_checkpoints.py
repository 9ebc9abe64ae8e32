"""Earlier checkpoints name classes to be imported when they are read, and nothing proves who wrote them.

They are deleted unread: the model's memory of open conversations begins again, the page keeps what was said.
"""

from typing import Any

from django.db import migrations


def forget(apps: Any, schema_editor: Any) -> None:
    apps.get_model("agent", "Checkpoint").objects.exclude(type="messages").delete()


class Migration(migrations.Migration):
    dependencies = [("agent", "0001_first")]

    operations = [migrations.RunPython(forget, migrations.RunPython.noop)]
