import django.db.models.deletion
from django.db import migrations, models

from approvals import guards


class Migration(migrations.Migration):

    dependencies = [
        ('approvals', '0029_bytes_in_a_bucket'),
    ]

    operations = [
        migrations.RunPython(guards.remove_in_migration, guards.install_in_migration),
        migrations.AddField(
            model_name='auditchain',
            name='archived',
            field=models.PositiveBigIntegerField(db_default=0, default=0),
        ),
        migrations.AddField(
            model_name='auditchain',
            name='archived_hash',
            field=models.CharField(db_default='0' * 64, default='0' * 64, max_length=64),
        ),
        migrations.AddField(
            model_name='auditchain',
            name='archived_seal',
            field=models.CharField(db_default='', default='', max_length=64),
        ),
        migrations.AddField(
            model_name='attempt',
            name='claim_seal',
            field=models.CharField(db_default='', default='', editable=False, max_length=64),
        ),
        migrations.AlterField(
            model_name='webhookdelivery',
            name='link',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='approvals.auditevent'),
        ),
        migrations.RunPython(guards.install_in_migration, guards.remove_in_migration),
    ]
