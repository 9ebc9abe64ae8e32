"""Proofs of people's addresses, and the codes that prove a mailbox's address."""

from datetime import timedelta

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models
from django.utils import timezone

AT_ONCE = timedelta(seconds=10)


def trust_known_people(apps, schema_editor):
    """Trust the addresses of accounts that operators made by a command.

    An account that an invitation made could belong to the inviter, who saw the link. Its address
    must be proven before single sign-on opens it.
    """
    User, Invitation = apps.get_model("accounts", "User"), apps.get_model("accounts", "Invitation")
    joined = User.objects.filter(email__in=Invitation.objects.exclude(used_at=None).values("email"))
    invited = {
        person.pk
        for person in joined
        if any(
            abs(each.used_at - person.date_joined) < AT_ONCE
            for each in Invitation.objects.filter(email=person.email).exclude(used_at=None)
        )
    }
    User.objects.exclude(pk__in=invited).update(address_proven_at=timezone.now())


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0005_end_sessions_with_stored_keys'),
    ]

    operations = [
        migrations.AddField(
            model_name='user',
            name='address_proven_at',
            field=models.DateTimeField(editable=False, null=True, verbose_name='address proven at'),
        ),
        migrations.CreateModel(
            name='AddressCode',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('address', models.EmailField(max_length=254)),
                ('digest', models.CharField(editable=False, max_length=64)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('expires_at', models.DateTimeField()),
                ('tries', models.PositiveSmallIntegerField(default=0)),
                ('proven_at', models.DateTimeField(null=True)),
                ('person', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'indexes': [models.Index(fields=['person', 'created_at'], name='address_code_of_person'), models.Index(fields=['address', 'created_at'], name='address_code_of_address')],
            },
        ),
        migrations.RunPython(trust_known_people, migrations.RunPython.noop),
    ]
