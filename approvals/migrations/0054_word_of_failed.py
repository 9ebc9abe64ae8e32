from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("approvals", "0053_guards_of_evidence")]

    operations = [
        migrations.AlterField(
            model_name="pendingaction",
            name="status",
            field=models.CharField(
                choices=[
                    ("pending", "waiting for a person"),
                    ("approved", "approved, will leave"),
                    ("executing", "leaving now"),
                    ("succeeded", "sent"),
                    ("failed", "failed"),
                    ("unknown", "not known whether it was sent"),
                    ("rejected", "rejected"),
                    ("cancelled", "withdrawn"),
                    ("expired", "expired"),
                    ("superseded", "replaced by another proposal"),
                ],
                default="pending",
                max_length=12,
            ),
        ),
    ]
