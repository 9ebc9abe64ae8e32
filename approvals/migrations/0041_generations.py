from django.db import migrations, models

from approvals import guards


class Migration(migrations.Migration):

    dependencies = [
        ('approvals', '0040_lease_of_the_work_after_a_send'),
        ('accounts', '0018_generations'),
    ]

    operations = [
        migrations.RunPython(guards.remove_in_migration, guards.install_in_migration),
        migrations.AddField(
            model_name='pendingaction',
            name='token_generation',
            field=models.PositiveIntegerField(default=0),
        ),
        migrations.AddField(
            model_name='pendingaction',
            name='mailbox_generation',
            field=models.PositiveIntegerField(default=0),
        ),
        migrations.AddField(
            model_name='decision',
            name='account_generation',
            field=models.PositiveIntegerField(db_default=0, default=0),
        ),
        migrations.AddField(
            model_name='decision',
            name='membership',
            field=models.BigIntegerField(null=True),
        ),
        migrations.RemoveConstraint(
            model_name='decision',
            name='decision_one_approval_a_person',
        ),
        migrations.AddConstraint(
            model_name='decision',
            constraint=models.UniqueConstraint(
                condition=models.Q(('verdict', 'approved')),
                fields=(
                    'action', 'person', 'revision', 'approval_round', 'membership', 'account_generation'
                ),
                name='decision_one_approval_a_person',
            ),
        ),
        migrations.RunPython(guards.install_in_migration, guards.remove_in_migration),
    ]
