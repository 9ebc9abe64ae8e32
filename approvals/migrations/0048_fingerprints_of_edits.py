from django.db import migrations, models
from django.db.models import F, Q

from approvals import guards


def take_fingerprints(apps, schema_editor):
    """Read the fingerprint of each edited action from its newest revision."""
    actions = apps.get_model('approvals', 'PendingAction').objects
    revisions = apps.get_model('approvals', 'Revision').objects.filter(
        number__gt=1, number=F('action__revision')
    )
    for action, preview in revisions.values_list('action', 'preview').iterator():
        found = (preview or {}).get('fingerprint')
        if found:
            actions.filter(~Q(fingerprint=found), pk=action).update(edited_fingerprint=found)


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0020_name_of_the_chat'),
        ('approvals', '0047_key_check'),
    ]

    operations = [
        migrations.RunPython(guards.remove_in_migration, guards.install_in_migration),
        migrations.AddField(
            model_name='pendingaction',
            name='edited_fingerprint',
            field=models.CharField(max_length=64, null=True),
        ),
        migrations.AddIndex(
            model_name='pendingaction',
            index=models.Index(condition=Q(('edited_fingerprint__isnull', False)), fields=['mailbox', 'edited_fingerprint', 'created_at'], name='action_edited_duplicates'),
        ),
        migrations.RunPython(take_fingerprints, migrations.RunPython.noop),
        migrations.RunPython(guards.install_in_migration, guards.remove_in_migration),
    ]
