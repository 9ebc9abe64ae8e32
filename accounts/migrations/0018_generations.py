from typing import Any

from django.db import migrations, models


def count_revocations(apps: Any, schema_editor: Any) -> None:
    """Let waiting mail of a revoked token say so."""
    apps.get_model("accounts", "ApiToken").objects.exclude(revoked_at=None).update(generation=1)


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0017_sign_ins'),
    ]

    operations = [
        migrations.AddField(
            model_name='apitoken',
            name='generation',
            field=models.PositiveIntegerField(db_default=0, default=0, editable=False),
        ),
        migrations.AddField(
            model_name='mailbox',
            name='generation',
            field=models.PositiveIntegerField(db_default=0, default=0),
        ),
        migrations.AddField(
            model_name='user',
            name='generation',
            field=models.PositiveIntegerField(db_default=0, default=0, editable=False),
        ),
        migrations.RunPython(count_revocations, migrations.RunPython.noop),
    ]
