"""Give each sign-in of a program rights of its own; until now all of a program shared one grant.

The sign-ins that share a grant already go on as one.
"""

from typing import Any

from django.db import migrations, models


def name_the_grant(apps: Any, schema_editor: Any) -> None:
    tokens = apps.get_model("allauth_idp_oidc", "Token").objects
    grants = apps.get_model("accounts", "ApiToken").objects
    for grant in grants.filter(client__isnull=False, revoked_at=None):
        for token in tokens.filter(user=grant.user_id, client=grant.client_id):
            token.data = {**(token.data or {}), "family": grant.pk.hex}
            token.save(update_fields=["data"])


class Migration(migrations.Migration):
    dependencies = [("accounts", "0016_names_of_tokens")]
    operations = [
        migrations.RemoveConstraint("apitoken", "one_grant_of_a_user_to_a_client"),
        migrations.AddField(
            "apitoken", "unproven", models.BooleanField(default=False, editable=False)
        ),
        migrations.RunPython(name_the_grant, migrations.RunPython.noop),
    ]
