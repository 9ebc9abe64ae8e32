import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

from approvals import guards


class Migration(migrations.Migration):

    dependencies = [
        ('approvals', '0026_escalation'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.RunPython(guards.remove_in_migration, guards.install_in_migration),
        migrations.AddField(
            model_name='revision',
            name='deputy_of',
            field=models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.RunPython(guards.install_in_migration, guards.remove_in_migration),
    ]
