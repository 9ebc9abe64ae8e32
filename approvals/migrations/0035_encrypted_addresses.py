import base64

from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

from accounts.infra.fields import TEXT_MARK
from accounts.infra.keys import encrypt_content


def encrypt_addresses(apps: Apps, editor: BaseDatabaseSchemaEditor) -> None:
    """Encrypt the addresses that are stored in clear, each bound to its row."""
    webhooks = apps.get_model("approvals", "Webhook")
    for key, url in webhooks.objects.exclude(url="").values_list("pk", "url").iterator():
        record = encrypt_content(url.encode(), bound_to=f"approvals_webhook:url:{key}")
        webhooks.objects.filter(pk=key).update(url=TEXT_MARK + base64.b64encode(record).decode())


class Migration(migrations.Migration):

    dependencies = [
        ("approvals", "0034_confirmed_domains"),
    ]

    operations = [
        migrations.AlterField(
            model_name="webhook",
            name="url",
            field=models.TextField(blank=True),
        ),
        # There is no way back: an earlier version would send to the encrypted text.
        migrations.RunPython(encrypt_addresses),
    ]
