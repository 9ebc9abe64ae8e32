from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('approvals', '0027_seats_of_authors'),
    ]

    operations = [
        migrations.AddField(
            model_name='notificationchannel',
            name='device',
            field=models.CharField(blank=True, default='', max_length=40),
            preserve_default=False,
        ),
    ]
