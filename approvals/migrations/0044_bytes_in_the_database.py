from typing import Any

from django.db import migrations, models

from approvals import guards


def refuse_objects(apps: Any, schema_editor: Any) -> None:
    """Stop if bytes are in a bucket, which this version cannot read."""
    if apps.get_model("approvals", "Blob").objects.exclude(stored_as="").exists():
        raise RuntimeError(
            "Some messages are in a bucket. Set MAILHUB_CONTENT_STORE=database in the version that you had, and run its"
            " `manage.py move_content`; then migrate again. Nothing was changed."
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
