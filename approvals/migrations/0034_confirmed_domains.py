from django.db import migrations, models

from approvals import guards


class Migration(migrations.Migration):

    dependencies = [
        ("approvals", "0033_authors"),
    ]

    operations = [
        migrations.RunPython(guards.remove_in_migration, guards.install_in_migration),
        migrations.AddField(
            model_name="approvalpolicy",
            name="confirmed_domains",
            field=models.JSONField(blank=True, default=list),
        ),
        migrations.RunPython(guards.install_in_migration, guards.remove_in_migration),
    ]
