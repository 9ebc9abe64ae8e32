from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("agent", "0002_forget_foreign_checkpoints")]

    operations = [
        migrations.RemoveField(model_name="toolcall", name="input"),
        migrations.AlterField(
            model_name="thread", name="title", field=models.TextField(blank=True)
        ),
    ]
