import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0014_programs_without_devices'),
    ]

    operations = [
        migrations.RemoveField(
            model_name='mailbox',
            name='members',
        ),
        migrations.AddField(
            model_name='membership',
            name='starts_at',
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name='membership',
            name='ends_at',
            field=models.DateTimeField(null=True),
        ),
        migrations.AlterField(
            model_name='membership',
            name='mailbox',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.mailbox'),
        ),
        migrations.AlterField(
            model_name='membership',
            name='user',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddConstraint(
            model_name='membership',
            constraint=models.CheckConstraint(condition=models.Q(('starts_at', None), ('ends_at', None), ('ends_at__gt', models.F('starts_at')), _connector='OR'), name='membership_has_a_period'),
        ),
    ]
