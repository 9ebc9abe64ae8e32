from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('approvals', '0036_expiry_after_the_send_time'),
    ]

    operations = [
        migrations.AddField(
            model_name='approvalpolicy',
            name='window_set_at',
            field=models.DateTimeField(editable=False, null=True),
        ),
        migrations.AddIndex(
            model_name='approvalpolicy',
            index=models.Index(condition=models.Q(('window_set_at__isnull', False)), fields=['window_set_at'], name='policy_window_set'),
        ),
    ]
