"""Take device codes from the programs of earlier versions, which got them without asking.

A program that needs them registers again, or is added with `create_program --device`. A metadata
document is read again within the hour.
"""

from typing import Any

from django.db import migrations

DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"


def take_device_grant(apps: Any, schema_editor: Any) -> None:
    for client in apps.get_model("allauth_idp_oidc", "Client").objects.iterator():
        grants = [each for each in client.grant_types.split("\n") if each != DEVICE_GRANT]
        client.grant_types = "\n".join(grants)
        client.save(update_fields=["grant_types"])


class Migration(migrations.Migration):
    dependencies = [("accounts", "0013_request_records_in_batches")]
    operations = [migrations.RunPython(take_device_grant, migrations.RunPython.noop)]
