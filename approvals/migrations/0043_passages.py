from django.db import migrations, models

from approvals import guards


class Migration(migrations.Migration):

    dependencies = [
        ('approvals', '0042_files_opened'),
    ]

    operations = [
        migrations.RunPython(guards.remove_in_migration, guards.install_in_migration),
        migrations.AddField(
            model_name='decision',
            name='passage',
            field=models.TextField(blank=True, db_default='', default=''),
        ),
        migrations.RunPython(guards.install_in_migration, guards.remove_in_migration),
    ]
