from typing import Any

from django.db import migrations
from django.db.models import F

from approvals import guards


def refuse_missing_events(apps: Any, schema_editor: Any) -> None:
    """Stop if some audit events are only in files of an archive, which this version cannot read."""
    chains = apps.get_model("approvals", "AuditChain").objects.filter(archived__gt=0)
    events = apps.get_model("approvals", "AuditEvent").objects.filter(
        chain__in=chains, sequence__lte=F("chain__archived")
    )
    missing = sum(chains.values_list("archived", flat=True)) - events.count()
    if missing:
        raise RuntimeError(
            f"{missing} audit events are only in the files of the archive of the audit. Keep these files. In the version"
            " that you had, put the events back by the lines that CHANGELOG.md has for `manage.py shell` (git show"
            " 36f9b1c3:CHANGELOG.md), then migrate again. Nothing was changed."
        )


class Migration(migrations.Migration):

    dependencies = [
        ('approvals', '0044_bytes_in_the_database'),
    ]

    operations = [
        migrations.RunPython(refuse_missing_events, migrations.RunPython.noop),
        migrations.RunPython(guards.remove_in_migration, guards.install_in_migration),
        migrations.RemoveField(model_name='auditchain', name='archived'),
        migrations.RemoveField(model_name='auditchain', name='archived_hash'),
        migrations.RemoveField(model_name='auditchain', name='archived_seal'),
        migrations.RemoveField(model_name='attempt', name='claim_seal'),
        migrations.RunPython(guards.install_in_migration, guards.remove_in_migration),
    ]
