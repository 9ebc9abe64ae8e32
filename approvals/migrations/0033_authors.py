import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

from approvals import guards

WRITTEN = """
    INSERT INTO approvals_author (action_id, person_id)
    SELECT id, proposer_id FROM approvals_pendingaction
    UNION SELECT action_id, author_id FROM approvals_revision"""
# Of the action that another one replaces; repeated for chains of replacements.
CARRIED = """
    INSERT INTO approvals_author (action_id, person_id)
    SELECT DISTINCT a.id, wrote.person_id FROM approvals_pendingaction AS a JOIN (
        SELECT action_id, person_id FROM approvals_author UNION
        SELECT action_id, person_id FROM approvals_decision WHERE verdict = 'changes_requested'
    ) AS wrote ON wrote.action_id = a.replaces_id
    WHERE NOT EXISTS (
        SELECT 1 FROM approvals_author AS own
        WHERE own.action_id = a.id AND own.person_id = wrote.person_id
    )"""


def store_authors(apps, schema_editor):
    """Store the authors of all actions, so that an approval by one that waits no longer counts."""
    with schema_editor.connection.cursor() as cursor:
        cursor.execute(WRITTEN)
        cursor.execute(CARRIED)
        while cursor.rowcount > 0:
            cursor.execute(CARRIED)


class Migration(migrations.Migration):

    dependencies = [
        ('approvals', '0032_no_deputies'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.RunPython(guards.remove_in_migration, guards.install_in_migration),
        migrations.CreateModel(
            name='Author',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('action', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='authors', to='approvals.pendingaction')),
                ('person', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('action', 'person'), name='author_once')],
            },
        ),
        migrations.RunPython(store_authors, migrations.RunPython.noop),
        migrations.RunPython(guards.install_in_migration, guards.remove_in_migration),
    ]
