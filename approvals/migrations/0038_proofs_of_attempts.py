from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

from approvals import guards


def name_proofs(apps: Apps, editor: BaseDatabaseSchemaEditor) -> None:
    """Name the proof of each attempt that ended unsent: until now its code and evidence told it.

    The code `still_a_draft` is no proof.
    """
    attempts = apps.get_model("approvals", "Attempt").objects.using(editor.connection.alias)
    ended = attempts.filter(verdict__in=("not_sent", "refused"))
    ended.filter(phase="prepared").update(proof="before_wire")
    on_wire = ended.filter(phase="wire_started").exclude(evidence="person")
    on_wire.filter(code="draft_destroyed").update(proof="destroyed")
    on_wire.exclude(code__in=("draft_destroyed", "still_a_draft")).update(proof="answer")


class Migration(migrations.Migration):

    dependencies = [
        ("approvals", "0037_when_a_window_was_set"),
    ]

    operations = [
        migrations.RunPython(guards.remove_in_migration, guards.install_in_migration),
        migrations.AddField(
            model_name="attempt",
            name="proof",
            field=models.CharField(db_default="", default="", max_length=12),
        ),
        migrations.RunPython(name_proofs, migrations.RunPython.noop),
        migrations.RunPython(guards.install_in_migration, guards.remove_in_migration),
    ]
