import django.utils.timezone
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("accounts", "0012_keyed_calls")]

    operations = [
        migrations.AlterField(
            model_name="requestrecord",
            name="at",
            field=models.DateTimeField(default=django.utils.timezone.now),
        ),
    ]
