from django.db import migrations, models

from approvals import guards


class Migration(migrations.Migration):

    dependencies = [
        ('approvals', '0039_copy_that_differs'),
    ]

    operations = [
        migrations.RunPython(guards.remove_in_migration, guards.install_in_migration),
        migrations.AddField(
            model_name='pendingaction',
            name='settling_until',
            field=models.DateTimeField(null=True),
        ),
        migrations.RunPython(guards.install_in_migration, guards.remove_in_migration),
    ]
