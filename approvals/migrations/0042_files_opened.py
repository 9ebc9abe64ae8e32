from django.db import migrations, models

from approvals import guards


class Migration(migrations.Migration):

    dependencies = [
        ('approvals', '0041_generations'),
    ]

    operations = [
        migrations.RunPython(guards.remove_in_migration, guards.install_in_migration),
        migrations.AddField(
            model_name='approvalpolicy',
            name='files_opened',
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.RunPython(guards.install_in_migration, guards.remove_in_migration),
    ]
