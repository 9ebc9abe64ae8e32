"""All tables at once, for a new installation; the steps stay for databases that have taken some."""

import django.db.models.deletion
import django.db.models.functions.datetime
import uuid
from django.conf import settings
from django.db import migrations, models

from accounts.infra.new_tables import CreateModels


class Migration(migrations.Migration):

    replaces = [
        ('tools', '0001_first'),
        ('tools', '0002_short_names_for_messages'),
        ('tools', '0003_acquaintances'),
        ('tools', '0004_when_short_names_were_used'),
        ('tools', '0005_draft_surface'),
        ('tools', '0006_commands_that_ran'),
        ('tools', '0007_answers_of_acquaintances'),
        ('tools', '0008_callers_of_links'),
        ('tools', '0009_drafts_in_transit'),
        ('tools', '0010_drafts_in_transit_by_action'),
        ('tools', '0011_authors_of_drafts'),
    ]

    initial = True

    dependencies = [
        ('accounts', '0021_sent_copies'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    tables = [
        migrations.CreateModel(
            name='DownloadLink',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('digest', models.CharField(max_length=64, unique=True)),
                ('message_id', models.CharField(max_length=1000)),
                ('attachment_id', models.CharField(max_length=500)),
                ('expires_at', models.DateTimeField()),
                ('used_at', models.DateTimeField(null=True)),
                ('mailbox', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.mailbox')),
                ('token', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.apitoken')),
                ('user', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
        ),
        migrations.CreateModel(
            name='Upload',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('owner_name', models.CharField(blank=True, max_length=100)),
                ('name', models.CharField(max_length=255)),
                ('type', models.CharField(max_length=255)),
                ('size', models.PositiveIntegerField()),
                ('sha256', models.CharField(max_length=64)),
                ('content', models.BinaryField()),
                ('expires_at', models.DateTimeField()),
                ('owner', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
        ),
        migrations.CreateModel(
            name='Acquaintance',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('digest', models.CharField(max_length=64)),
                ('domain', models.CharField(max_length=255)),
                ('answered', models.BooleanField(default=False)),
                ('since', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('mailbox', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.mailbox')),
            ],
            options={
                'indexes': [models.Index(fields=['mailbox', 'domain'], name='acquaintance_domains')],
                'constraints': [models.UniqueConstraint(fields=('mailbox', 'digest'), name='acquaintance_once')],
            },
        ),
        migrations.CreateModel(
            name='CommandRun',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('at', models.DateTimeField(auto_now_add=True)),
                ('caller_name', models.CharField(blank=True, max_length=100)),
                ('surface', models.CharField(max_length=10)),
                ('action_id', models.UUIDField(null=True)),
                ('line', models.TextField()),
                ('output', models.TextField(blank=True)),
                ('outcome', models.CharField(max_length=32)),
                ('duration_ms', models.PositiveIntegerField()),
                ('user', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ['-at'],
                'indexes': [models.Index(fields=['user', '-at'], name='command_run_newest'), models.Index(fields=['at'], name='command_run_age'), models.Index(fields=['action_id'], name='command_run_of_action')],
            },
        ),
        migrations.CreateModel(
            name='Draft',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('author_name', models.CharField(blank=True, max_length=100)),
                ('provider_id', models.CharField(max_length=1000)),
                ('message_id', models.CharField(max_length=255)),
                ('sha256', models.CharField(max_length=64)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('updated_at', models.DateTimeField(auto_now=True)),
                ('surface', models.CharField(blank=True, default='', max_length=10)),
                ('author', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('mailbox', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.mailbox')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('mailbox', 'message_id'), name='draft_once')],
            },
        ),
        migrations.CreateModel(
            name='DraftAuthor',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('message_id', models.CharField(max_length=255)),
                ('mailbox', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.mailbox')),
                ('person', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('mailbox', 'message_id', 'person'), name='draft_author_once')],
            },
        ),
        migrations.CreateModel(
            name='DraftInTransit',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('digest', models.CharField(max_length=64)),
                ('at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('action_id', models.UUIDField(null=True)),
                ('mailbox', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.mailbox')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('mailbox', 'digest', 'action_id'), name='draft_in_transit_once')],
            },
        ),
        migrations.CreateModel(
            name='MessageHandle',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('handle', models.CharField(max_length=20)),
                ('named', models.TextField()),
                ('used_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('mailbox', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.mailbox')),
            ],
            options={
                'indexes': [models.Index(fields=['used_at'], name='handle_age')],
                'constraints': [models.UniqueConstraint(fields=('mailbox', 'handle'), name='handle_once')],
            },
        ),
    ]
    operations = [CreateModels(tables)]
