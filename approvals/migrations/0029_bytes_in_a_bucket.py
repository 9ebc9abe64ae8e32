import uuid

from django.db import migrations, models

from approvals import guards


class Migration(migrations.Migration):

    dependencies = [
        ('approvals', '0028_browsers_of_channels'),
    ]

    operations = [
        migrations.RunPython(guards.remove_in_migration, guards.install_in_migration),
        migrations.CreateModel(
            name='UnusedObject',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=80)),
                ('remove_at', models.DateTimeField()),
            ],
        ),
        migrations.AddField(
            model_name='blob',
            name='stored_as',
            field=models.CharField(blank=True, db_default='', default='', max_length=80),
        ),
        migrations.AlterField(
            model_name='blob',
            name='content',
            field=models.BinaryField(null=True),
        ),
        migrations.AddConstraint(
            model_name='blob',
            constraint=models.UniqueConstraint(condition=models.Q(('stored_as', ''), _negated=True), fields=('stored_as',), name='blob_once_in_the_bucket'),
        ),
        migrations.AddIndex(
            model_name='unusedobject',
            index=models.Index(fields=['remove_at'], name='unused_object_due'),
        ),
        migrations.AddConstraint(
            model_name='unusedobject',
            constraint=models.UniqueConstraint(fields=('name',), name='unused_object_once'),
        ),
        migrations.RunPython(guards.install_in_migration, guards.remove_in_migration),
    ]
