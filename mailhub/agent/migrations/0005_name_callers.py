from django.db import migrations
from django.db.models import OuterRef, Subquery


def name_callers(apps, schema_editor):
    calls = apps.get_model("agent", "ToolCall").objects
    thread = apps.get_model("agent", "Thread").objects.filter(pk=OuterRef("thread_id"))
    calls.filter(user=None).update(
        user_id=Subquery(thread.values("user_id")),
        caller_name=Subquery(thread.values("caller_name")),
    )


class Migration(migrations.Migration):
    dependencies = [("agent", "0004_calls_outlive_conversations")]

    operations = [migrations.RunPython(name_callers, migrations.RunPython.noop)]
