"""No token has the name of the chat: what a program proposed and wrote is found by its name."""

from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor


def rename_tokens(apps: Apps, editor: BaseDatabaseSchemaEditor) -> None:
    tokens = apps.get_model("accounts", "ApiToken").objects
    for token in tokens.filter(name="chat"):
        tokens.filter(pk=token.pk).update(name=f"chat {token.pk}")


class Migration(migrations.Migration):
    dependencies = [("accounts", "0019_end_sessions_in_clear")]
    operations = [
        migrations.RunPython(rename_tokens, migrations.RunPython.noop),
        migrations.AddConstraint(
            "apitoken",
            models.CheckConstraint(
                condition=models.Q(("name", "chat"), _negated=True), name="token_is_not_named_chat"
            ),
        ),
    ]
