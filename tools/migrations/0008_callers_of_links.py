import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0017_sign_ins"),
        ("tools", "0007_answers_of_acquaintances"),
    ]
    operations = [
        migrations.AddField(
            "downloadlink",
            "user",
            models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            "downloadlink",
            "token",
            models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="+",
                to="accounts.apitoken",
            ),
        ),
    ]
