import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("agent", "0003_no_content_in_clear"),
        ("accounts", "0001_first"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AlterField(
            model_name="toolcall",
            name="thread",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="tool_calls",
                to="agent.thread",
            ),
        ),
        migrations.AddField(
            model_name="toolcall",
            name="user",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="toolcall",
            name="caller_name",
            field=models.CharField(blank=True, max_length=100),
        ),
        migrations.AddField(
            model_name="toolcall",
            name="mailbox",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="+",
                to="accounts.mailbox",
            ),
        ),
        migrations.AddField(
            model_name="toolcall", name="action_id", field=models.UUIDField(null=True)
        ),
        migrations.AddIndex(
            model_name="toolcall",
            index=models.Index(fields=["mailbox", "-at"], name="tool_call_newest"),
        ),
    ]
