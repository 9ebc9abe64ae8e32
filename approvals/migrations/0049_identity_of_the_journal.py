from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('approvals', '0048_fingerprints_of_edits'),
    ]

    operations = [
        migrations.AddField(
            model_name='instance',
            name='journal',
            field=models.CharField(blank=True, db_default='', default='', max_length=64),
        ),
    ]
