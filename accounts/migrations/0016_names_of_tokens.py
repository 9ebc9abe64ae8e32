"""A name of a token is used once: actions, keys and chats of a program are found by it.

Earlier versions let a new token take the name of a revoked one. The newest of them keeps it.
"""

from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor


def rename_earlier(apps: Apps, editor: BaseDatabaseSchemaEditor) -> None:
    tokens = apps.get_model("accounts", "ApiToken").objects
    kept: set[tuple[int, str]] = set()
    # A token that is not revoked comes first: it is the only one of its name that is in use.
    for token in tokens.order_by(models.F("revoked_at").desc(nulls_first=True), "-created_at"):
        if (token.user_id, token.name) in kept:
            tokens.filter(pk=token.pk).update(name=f"{token.name[:60]} {token.pk}")
        kept.add((token.user_id, token.name))


class Migration(migrations.Migration):
    dependencies = [("accounts", "0015_days_of_a_membership")]
    operations = [
        migrations.RemoveConstraint("apitoken", "token_name_once_for_a_user"),
        migrations.RunPython(rename_earlier, migrations.RunPython.noop),
        migrations.AddConstraint(
            "apitoken",
            models.UniqueConstraint(fields=("user", "name"), name="token_name_once_for_a_user"),
        ),
    ]
