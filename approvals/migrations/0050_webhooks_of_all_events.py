"""Webhooks that got every event of 0.2.0 were added for all events, and get all later ones too."""

from django.apps.registry import Apps
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

ALL = "action.*"
FIRST = {
    f"action.{name}"
    for name in (
        *("proposed", "approved", "rejected", "changes_requested", "succeeded", "failed"),
        *("unknown", "expired", "unsettled"),
    )
}


def widen(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    for webhook in apps.get_model("approvals", "Webhook").objects.only("events"):
        if set(webhook.events) >= FIRST:
            others = [name for name in webhook.events if not name.startswith("action.")]
            webhook.events = [ALL, *others]
            webhook.save(update_fields=["events"])


class Migration(migrations.Migration):
    dependencies = [("approvals", "0049_identity_of_the_journal")]

    operations = [migrations.RunPython(widen, migrations.RunPython.noop)]
