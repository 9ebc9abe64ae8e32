from typing import Any

from django.db import migrations, models

from approvals import guards


def refuse_objects(apps: Any, schema_editor: Any) -> None:
    """Stop if a bucket holds bytes, which this version can neither read nor remove."""
    in_use = apps.get_model("approvals", "Blob").objects.exclude(stored_as="")
    if in_use.exists() or apps.get_model("approvals", "UnusedObject").objects.exists():
        raise RuntimeError(
            "Some messages are in a bucket. In the version that you had, set MAILHUB_CONTENT_STORE=database, run"
            " `manage.py move_content`, and leave a worker running until the bucket is empty; then migrate again."
            " Nothing was changed."
        )


class Migration(migrations.Migration):

    dependencies = [
        ('approvals', '0043_passages'),
    ]

    operations = [
        migrations.RunPython(refuse_objects, migrations.RunPython.noop),
        migrations.RunPython(guards.remove_in_migration, guards.install_in_migration),
        migrations.RemoveConstraint(model_name='blob', name='blob_once_in_the_bucket'),
        migrations.RemoveField(model_name='blob', name='stored_as'),
        migrations.AlterField(
            model_name='blob',
            name='content',
            field=models.BinaryField(),
        ),
        migrations.DeleteModel(name='UnusedObject'),
        migrations.RunPython(guards.install_in_migration, guards.remove_in_migration),
    ]
