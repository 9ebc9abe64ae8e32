"""All tables at once: a new installation is spared the 49 steps.

The steps stay for databases of version 0.2.0 and later; what they do to rows they do there only.
"""

from importlib import import_module

import django.db.models.deletion
import django.db.models.functions.comparison
import django.db.models.functions.datetime
import uuid
from django.conf import settings
from django.db import migrations, models

from accounts.infra.new_tables import CreateModels
from approvals import guards


class Migration(migrations.Migration):

    replaces = [
        ('approvals', '0001_first'),
        ('approvals', '0002_the_database_refuses'),
        ('approvals', '0003_preparations'),
        ('approvals', '0004_edits_and_replacements'),
        ('approvals', '0005_saved_views_and_presence'),
        ('approvals', '0006_the_rules_of_a_mailbox'),
        ('approvals', '0007_webhooks'),
        ('approvals', '0008_the_newest_of_a_chain'),
        ('approvals', '0009_seals'),
        ('approvals', '0010_doubts'),
        ('approvals', '0011_instance_and_reason'),
        ('approvals', '0012_dead_letters'),
        ('approvals', '0013_unsettled'),
        ('approvals', '0014_content_at_rest'),
        ('approvals', '0015_webhooks_of_security'),
        ('approvals', '0016_words_of_states'),
        ('approvals', '0017_what_the_proposer_says'),
        ('approvals', '0018_callbacks'),
        ('approvals', '0019_notifications'),
        ('approvals', '0020_event_notifications'),
        ('approvals', '0021_orders_of_the_queue'),
        ('approvals', '0022_deputies'),
        ('approvals', '0023_notifications_by_rule'),
        ('approvals', '0024_discussion'),
        ('approvals', '0025_fewer_indexes'),
        ('approvals', '0026_escalation'),
        ('approvals', '0027_seats_of_authors'),
        ('approvals', '0028_browsers_of_channels'),
        ('approvals', '0029_bytes_in_a_bucket'),
        ('approvals', '0030_archived_events'),
        ('approvals', '0031_restored_rows'),
        ('approvals', '0032_no_deputies'),
        ('approvals', '0033_authors'),
        ('approvals', '0034_confirmed_domains'),
        ('approvals', '0035_encrypted_addresses'),
        ('approvals', '0036_expiry_after_the_send_time'),
        ('approvals', '0037_when_a_window_was_set'),
        ('approvals', '0038_proofs_of_attempts'),
        ('approvals', '0039_copy_that_differs'),
        ('approvals', '0040_lease_of_the_work_after_a_send'),
        ('approvals', '0041_generations'),
        ('approvals', '0042_files_opened'),
        ('approvals', '0043_passages'),
        ('approvals', '0044_bytes_in_the_database'),
        ('approvals', '0045_no_audit_archive'),
        ('approvals', '0046_watches'),
        ('approvals', '0047_key_check'),
        ('approvals', '0048_fingerprints_of_edits'),
        ('approvals', '0049_identity_of_the_journal'),
    ]

    initial = True

    dependencies = [
        ('accounts', '0021_sent_copies'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    tables = [
        migrations.CreateModel(
            name='PendingAction',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('kind', models.CharField(max_length=40)),
                ('tool', models.CharField(max_length=40)),
                ('proposer_name', models.CharField(blank=True, max_length=100)),
                ('token_id', models.UUIDField(null=True)),
                ('status', models.CharField(choices=[('pending', 'waiting for a person'), ('approved', 'approved, will leave'), ('executing', 'leaving now'), ('succeeded', 'sent'), ('failed', 'not sent'), ('unknown', 'not known whether it was sent'), ('rejected', 'rejected'), ('cancelled', 'withdrawn'), ('expired', 'expired'), ('superseded', 'replaced by another proposal')], default='pending', max_length=12)),
                ('revision', models.PositiveIntegerField(default=1)),
                ('digest', models.CharField(max_length=64)),
                ('message_id', models.CharField(max_length=255)),
                ('fingerprint', models.CharField(max_length=64)),
                ('approval_round', models.PositiveIntegerField(default=1)),
                ('approvals_needed', models.PositiveSmallIntegerField(default=1)),
                ('approvals_given', models.PositiveSmallIntegerField(default=0)),
                ('created_at', models.DateTimeField()),
                ('expires_at', models.DateTimeField()),
                ('approved_at', models.DateTimeField(null=True)),
                ('approved_until', models.DateTimeField(null=True)),
                ('undo_until', models.DateTimeField(null=True)),
                ('send_at', models.DateTimeField(null=True)),
                ('not_before', models.DateTimeField(null=True)),
                ('finished_at', models.DateTimeField(null=True)),
                ('purged_at', models.DateTimeField(null=True)),
                ('fence', models.PositiveIntegerField(default=0)),
                ('lease_until', models.DateTimeField(null=True)),
                ('next_probe_at', models.DateTimeField(null=True)),
                ('probes', models.PositiveSmallIntegerField(default=0)),
                ('settle_at', models.DateTimeField(null=True)),
                ('settle_tries', models.PositiveSmallIntegerField(default=0)),
                ('receipt', models.JSONField(null=True)),
                ('error', models.JSONField(null=True)),
                ('returned', models.JSONField(null=True)),
                ('rules_version', models.PositiveIntegerField(default=0)),
                ('order_seal', models.CharField(blank=True, max_length=80)),
                ('unsettled_at', models.DateTimeField(null=True)),
                ('risk', models.PositiveSmallIntegerField(default=0)),
                ('restored_at', models.DateTimeField(null=True)),
                ('unreconciled', models.BooleanField(default=False)),
                ('differs_in_sent', models.JSONField(null=True)),
                ('settling_until', models.DateTimeField(null=True)),
                ('token_generation', models.PositiveIntegerField(default=0)),
                ('mailbox_generation', models.PositiveIntegerField(default=0)),
                ('edited_fingerprint', models.CharField(max_length=64, null=True)),
                ('mailbox', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='accounts.mailbox')),
                ('proposer', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('replaces', models.OneToOneField(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='superseded_by', to='approvals.pendingaction')),
            ],
            options={
                'ordering': ['created_at', 'id'],
                'indexes': [models.Index(fields=['mailbox', 'status', 'created_at', 'id'], name='action_queue_page'), models.Index(fields=['mailbox', 'fingerprint', 'created_at'], name='action_duplicates'), models.Index(fields=['proposer', 'created_at', 'id'], name='action_of_proposer'), models.Index(condition=models.Q(('status', 'executing')), fields=['lease_until'], name='action_leased'), models.Index(condition=models.Q(('status', 'unknown')), fields=['next_probe_at'], name='action_to_probe'), models.Index(condition=models.Q(('settle_at__isnull', False)), fields=['settle_at'], name='action_to_settle'), models.Index(condition=models.Q(('status__in', ['pending', 'approved'])), fields=['expires_at'], name='action_expiring'), models.Index(condition=models.Q(('finished_at__isnull', False), ('purged_at__isnull', True)), fields=['finished_at'], name='action_to_purge'), models.Index(condition=models.Q(('status', 'succeeded')), fields=['mailbox', 'finished_at'], name='action_left_a_mailbox'), models.Index(condition=models.Q(('status', 'pending')), fields=['mailbox', 'expires_at', 'id'], name='action_queue_by_expiry'), models.Index(condition=models.Q(('status', 'pending')), fields=['mailbox', '-risk', 'created_at', 'id'], name='action_queue_by_risk'), models.Index(fields=['mailbox', 'proposer', 'proposer_name', 'created_at'], name='action_of_agent'), models.Index(condition=models.Q(('status', 'approved')), fields=['not_before', 'mailbox', 'id'], name='action_due'), models.Index(condition=models.Q(('status', 'approved')), fields=['mailbox', 'not_before'], name='action_due_of_mailbox'), models.Index(condition=models.Q(('edited_fingerprint__isnull', False)), fields=['mailbox', 'edited_fingerprint', 'created_at'], name='action_edited_duplicates')],
                'constraints': [models.CheckConstraint(condition=models.Q(('status__in', ['pending', 'approved', 'executing', 'succeeded', 'failed', 'unknown', 'rejected', 'cancelled', 'expired', 'superseded'])), name='action_known_status'), models.CheckConstraint(condition=models.Q(('approvals_needed__gte', 1)), name='action_needs_a_person'), models.CheckConstraint(condition=models.Q(models.Q(('receipt__isnull', False), ('status', 'succeeded')), models.Q(models.Q(('status', 'succeeded'), _negated=True), ('receipt__isnull', True)), _connector='OR'), name='action_succeeded_has_receipt'), models.CheckConstraint(condition=models.Q(models.Q(('lease_until__isnull', False), ('status', 'executing')), models.Q(models.Q(('status', 'executing'), _negated=True), ('lease_until__isnull', True)), _connector='OR'), name='action_executing_has_lease'), models.CheckConstraint(condition=models.Q(models.Q(('status__in', ('approved', 'executing', 'failed', 'unknown')), _negated=True), ('approvals_given__gte', models.F('approvals_needed')), _connector='OR'), name='action_approved_needs_decisions'), models.UniqueConstraint(fields=('message_id',), name='action_message_id_once'), models.UniqueConstraint(condition=models.Q(('status', 'executing')), fields=('mailbox',), name='action_one_leaving_a_mailbox'), models.CheckConstraint(condition=models.Q(('send_at__isnull', True), ('expires_at__gt', models.F('send_at')), _connector='OR'), name='action_expires_after_it_may_leave')],
            },
        ),
        migrations.CreateModel(
            name='Heartbeat',
            fields=[
                ('worker', models.CharField(max_length=100, primary_key=True, serialize=False)),
                ('seen_at', models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name='Instance',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('identity', models.UUIDField()),
                ('journal', models.CharField(blank=True, db_default='', default='', max_length=64)),
            ],
        ),
        migrations.CreateModel(
            name='KeyCheck',
            fields=[
                ('name', models.CharField(max_length=20, primary_key=True, serialize=False)),
                ('value', models.CharField(max_length=80)),
            ],
        ),
        migrations.CreateModel(
            name='NotificationCursor',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('event', models.PositiveBigIntegerField(default=0)),
                ('later', models.JSONField(default=list)),
            ],
        ),
        migrations.CreateModel(
            name='QueueOrder',
            fields=[
                ('person', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='+', serialize=False, to=settings.AUTH_USER_MODEL)),
                ('name', models.CharField(max_length=10)),
            ],
        ),
        migrations.CreateModel(
            name='Rest',
            fields=[
                ('mailbox', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='+', serialize=False, to='accounts.mailbox')),
                ('until', models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name='AuditChain',
            fields=[
                ('id', models.UUIDField(editable=False, primary_key=True, serialize=False)),
                ('length', models.PositiveBigIntegerField(default=0)),
                ('head', models.CharField(default='0000000000000000000000000000000000000000000000000000000000000000', max_length=64)),
                ('mailbox', models.OneToOneField(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='accounts.mailbox')),
            ],
        ),
        migrations.CreateModel(
            name='NotificationChannel',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('kind', models.CharField(choices=[('email', 'e-mail'), ('web_push', 'this browser'), ('apprise', 'chat or phone')], max_length=10)),
                ('label', models.CharField(blank=True, max_length=100)),
                ('address', models.TextField(blank=True)),
                ('content', models.CharField(choices=[('link', 'only a link'), ('subject', 'the sender and the subject'), ('preview', 'a preview of the text')], default='link', max_length=10)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('failures', models.PositiveSmallIntegerField(default=0)),
                ('paused_at', models.DateTimeField(null=True)),
                ('pause_code', models.CharField(blank=True, max_length=40)),
                ('busy_until', models.DateTimeField(null=True)),
                ('device', models.CharField(blank=True, max_length=40)),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ['created_at', 'id'],
                'indexes': [models.Index(fields=['user'], name='notification_channel_user')],
                'constraints': [models.UniqueConstraint(condition=models.Q(('kind', 'email')), fields=('user',), name='notification_email_once')],
            },
        ),
        migrations.CreateModel(
            name='NotificationSettings',
            fields=[
                ('user', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='+', serialize=False, to=settings.AUTH_USER_MODEL)),
                ('days', models.CharField(blank=True, max_length=7)),
                ('quiet_from', models.TimeField(blank=True, null=True)),
                ('quiet_until', models.TimeField(blank=True, null=True)),
                ('time_zone', models.CharField(default='UTC', max_length=64)),
                ('digest', models.CharField(choices=[('none', 'never'), ('daily', 'every day'), ('weekly', 'every Monday')], default='none', max_length=8)),
                ('digest_due_at', models.DateTimeField(editable=False, null=True)),
                ('email_offered', models.BooleanField(default=False, editable=False)),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('digest_due_at__isnull', False)), fields=['digest_due_at'], name='notification_digest_due')],
            },
        ),
        migrations.CreateModel(
            name='Pause',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('since', models.DateTimeField()),
                ('reason', models.CharField(blank=True, default='', max_length=20)),
                ('mailbox', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.mailbox')),
            ],
            options={
                'constraints': [models.UniqueConstraint(django.db.models.functions.comparison.Coalesce('mailbox', models.Value(uuid.UUID('00000000-0000-0000-0000-000000000000'), models.UUIDField())), models.F('reason'), name='pause_once_a_reason')],
            },
        ),
        migrations.CreateModel(
            name='ReviewText',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('purpose', models.CharField(choices=[('ask_back', 'request changes'), ('reject', 'reject')], max_length=10)),
                ('title', models.CharField(max_length=60)),
                ('text', models.CharField(max_length=2000)),
                ('mailbox', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.mailbox')),
            ],
            options={
                'ordering': ['title', 'id'],
                'constraints': [models.UniqueConstraint(fields=('mailbox', 'purpose', 'title'), name='review_text_title_once')],
            },
        ),
        migrations.CreateModel(
            name='SavedView',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=60)),
                ('query', models.CharField(max_length=500)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('person', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ['name'],
                'constraints': [models.UniqueConstraint(fields=('person', 'name'), name='saved_view_name_once')],
            },
        ),
        migrations.CreateModel(
            name='WatchedMailbox',
            fields=[
                ('mailbox', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='+', serialize=False, to='accounts.mailbox')),
                ('seen_until', models.DateTimeField()),
                ('look_at', models.DateTimeField(null=True)),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('look_at__isnull', False)), fields=['look_at'], name='watched_mailbox_due')],
            },
        ),
        migrations.CreateModel(
            name='Webhook',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('url', models.TextField(blank=True)),
                ('events', models.JSONField()),
                ('secret', models.TextField(editable=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('ended_at', models.DateTimeField(null=True)),
                ('busy_until', models.DateTimeField(null=True)),
                ('callbacks', models.BooleanField(default=False)),
                ('token', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.apitoken')),
            ],
            options={
                'ordering': ['created_at', 'id'],
                'constraints': [models.UniqueConstraint(condition=models.Q(('callbacks', True)), fields=('token',), name='webhook_of_callbacks_once')],
            },
        ),
        migrations.CreateModel(
            name='ApprovalPolicy',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('approvals_needed', models.PositiveSmallIntegerField(default=1)),
                ('self_approval', models.BooleanField(default=True)),
                ('approval_minutes', models.PositiveIntegerField(blank=True, null=True)),
                ('action_hours', models.PositiveIntegerField(blank=True, null=True)),
                ('allowed', models.JSONField(blank=True, default=list)),
                ('approver_role', models.CharField(choices=[('approver', 'everybody who may approve'), ('manager', 'managers only')], default='approver', max_length=16)),
                ('closes_at', models.DateTimeField(editable=False, null=True)),
                ('daily_cap', models.PositiveIntegerField(blank=True, null=True)),
                ('open_days', models.CharField(blank=True, max_length=7)),
                ('open_from', models.TimeField(blank=True, null=True)),
                ('open_until', models.TimeField(blank=True, null=True)),
                ('opens_at', models.DateTimeField(editable=False, null=True)),
                ('refused', models.JSONField(blank=True, default=list)),
                ('time_zone', models.CharField(default='UTC', max_length=64)),
                ('undo_seconds', models.PositiveIntegerField(blank=True, null=True)),
                ('version', models.PositiveIntegerField(default=0, editable=False)),
                ('notify_content', models.CharField(choices=[('link', 'only a link'), ('subject', 'the sender and the subject'), ('preview', 'a preview of the text')], default='preview', max_length=10)),
                ('notify_urgent', models.BooleanField(default=False)),
                ('escalation_minutes', models.PositiveIntegerField(blank=True, null=True)),
                ('confirmed_domains', models.JSONField(blank=True, default=list)),
                ('window_set_at', models.DateTimeField(editable=False, null=True)),
                ('files_opened', models.BooleanField(db_default=False, default=False)),
                ('mailbox', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.mailbox')),
            ],
            options={
                'verbose_name_plural': 'approval policies',
                'indexes': [models.Index(condition=models.Q(('closes_at__isnull', False)), fields=['closes_at'], name='policy_closing'), models.Index(condition=models.Q(('window_set_at__isnull', False)), fields=['window_set_at'], name='policy_window_set')],
                'constraints': [models.CheckConstraint(condition=models.Q(('approvals_needed__gte', 1), ('approvals_needed__lte', 5)), name='policy_needs_a_person'), models.CheckConstraint(condition=models.Q(('approver_role__in', ['approver', 'manager'])), name='policy_known_approvers'), models.CheckConstraint(condition=models.Q(models.Q(('closes_at__isnull', True), ('opens_at__isnull', True)), models.Q(('closes_at__gt', models.F('opens_at')), ('opens_at__isnull', False)), _connector='OR'), name='policy_window_has_both_ends')],
            },
        ),
        migrations.CreateModel(
            name='Preparation',
            fields=[
                ('action', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='preparation', serialize=False, to='approvals.pendingaction')),
                ('digest', models.CharField(max_length=64)),
                ('notes', models.JSONField()),
                ('tidy_at', models.DateTimeField(auto_now_add=True)),
            ],
        ),
        migrations.CreateModel(
            name='ProposerNote',
            fields=[
                ('action', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='proposer_note', serialize=False, to='approvals.pendingaction')),
                ('reason', models.TextField(blank=True)),
                ('callback_url', models.TextField(blank=True)),
            ],
        ),
        migrations.CreateModel(
            name='Attempt',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('fence', models.PositiveIntegerField()),
                ('phase', models.CharField(choices=[('prepared', 'Prepared'), ('wire_started', 'Wire Started')], default='prepared', max_length=12)),
                ('verdict', models.CharField(choices=[('accepted', 'Accepted'), ('refused', 'Refused'), ('not_sent', 'Not Sent'), ('unknown', 'Unknown')], max_length=12, null=True)),
                ('code', models.CharField(blank=True, max_length=60)),
                ('evidence', models.CharField(blank=True, max_length=60)),
                ('reference', models.CharField(blank=True, max_length=255)),
                ('worker', models.CharField(max_length=100)),
                ('started_at', models.DateTimeField()),
                ('wire_started_at', models.DateTimeField(null=True)),
                ('ended_at', models.DateTimeField(null=True)),
                ('notes', models.JSONField(null=True)),
                ('ruled_at', models.DateTimeField(null=True)),
                ('proof', models.CharField(db_default='', default='', max_length=12)),
                ('action', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='attempts', to='approvals.pendingaction')),
            ],
            options={
                'ordering': ['fence'],
                'constraints': [models.CheckConstraint(condition=models.Q(('phase__in', ['prepared', 'wire_started'])), name='attempt_known_phase'), models.CheckConstraint(condition=models.Q(('verdict__isnull', True), ('verdict__in', ['accepted', 'refused', 'not_sent', 'unknown']), _connector='OR'), name='attempt_known_verdict'), models.CheckConstraint(condition=models.Q(models.Q(('ended_at__isnull', True), ('verdict__isnull', True)), models.Q(('ended_at__isnull', False), ('verdict__isnull', False)), _connector='OR'), name='attempt_ended_has_verdict'), models.CheckConstraint(condition=models.Q(models.Q(('verdict', 'accepted'), _negated=True), ('phase', 'wire_started'), _connector='OR'), name='attempt_accepted_was_on_wire'), models.UniqueConstraint(fields=('action', 'fence'), name='attempt_one_a_fence'), models.UniqueConstraint(condition=models.Q(('verdict', None)), fields=('action',), name='attempt_one_open')],
            },
        ),
        migrations.CreateModel(
            name='AuditEvent',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('sequence', models.PositiveBigIntegerField()),
                ('at', models.DateTimeField()),
                ('event', models.CharField(max_length=40)),
                ('action_id', models.UUIDField(db_index=True, null=True)),
                ('actor', models.CharField(max_length=60)),
                ('data', models.JSONField(default=dict)),
                ('previous', models.CharField(max_length=64)),
                ('hash', models.CharField(max_length=64)),
                ('chain', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='events', to='approvals.auditchain')),
                ('mailbox', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='accounts.mailbox')),
            ],
            options={
                'ordering': ['chain', 'sequence'],
                'indexes': [models.Index(fields=['chain', 'at', 'id'], name='audit_newest')],
                'constraints': [models.UniqueConstraint(fields=('chain', 'sequence'), name='audit_no_gap_reuse'), models.UniqueConstraint(fields=('chain', 'previous'), name='audit_no_fork')],
            },
        ),
        migrations.CreateModel(
            name='Author',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('action', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='authors', to='approvals.pendingaction')),
                ('person', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('action', 'person'), name='author_once')],
            },
        ),
        migrations.CreateModel(
            name='Blob',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('sha256', models.CharField(max_length=64)),
                ('content', models.BinaryField()),
                ('action', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='blobs', to='approvals.pendingaction')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('action', 'sha256'), name='blob_once_an_action')],
            },
        ),
        migrations.CreateModel(
            name='Comment',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('text', models.TextField()),
                ('created_at', models.DateTimeField()),
                ('action', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='approvals.pendingaction')),
                ('person', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ['created_at', 'id'],
                'indexes': [models.Index(fields=['action', 'created_at', 'id'], name='comment_of_action')],
            },
        ),
        migrations.CreateModel(
            name='DeadLetter',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('chore', models.CharField(max_length=30)),
                ('error', models.CharField(max_length=100)),
                ('failures', models.PositiveIntegerField(default=1)),
                ('first_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('last_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('again_at', models.DateTimeField()),
                ('action', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='approvals.pendingaction')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('action', 'chore'), name='dead_letter_once')],
            },
        ),
        migrations.CreateModel(
            name='Decision',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('verdict', models.CharField(choices=[('approved', 'Approved'), ('rejected', 'Rejected'), ('changes_requested', 'Changes Requested')], max_length=20)),
                ('revision', models.PositiveIntegerField()),
                ('approval_round', models.PositiveIntegerField()),
                ('digest', models.CharField(max_length=64)),
                ('note', models.TextField(blank=True)),
                ('created_at', models.DateTimeField()),
                ('method', models.CharField(blank=True, max_length=60)),
                ('seal', models.CharField(blank=True, max_length=80)),
                ('account_generation', models.PositiveIntegerField(db_default=0, default=0)),
                ('membership', models.BigIntegerField(null=True)),
                ('passage', models.TextField(blank=True, db_default='', default='')),
                ('action', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='decisions', to='approvals.pendingaction')),
                ('person', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ['created_at', 'id'],
                'constraints': [models.CheckConstraint(condition=models.Q(('verdict__in', ['approved', 'rejected', 'changes_requested'])), name='decision_known_verdict'), models.UniqueConstraint(condition=models.Q(('verdict', 'approved')), fields=('action', 'person', 'revision', 'approval_round', 'membership', 'account_generation'), name='decision_one_approval_a_person')],
            },
        ),
        migrations.CreateModel(
            name='IdempotencyRecord',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('proposer_name', models.CharField(blank=True, max_length=100)),
                ('tool', models.CharField(max_length=40)),
                ('key', models.CharField(max_length=255)),
                ('request_digest', models.CharField(max_length=64)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('action', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='approvals.pendingaction')),
                ('mailbox', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.mailbox')),
                ('proposer', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('mailbox', 'proposer', 'proposer_name', 'tool', 'key'), name='idempotency_key_once')],
            },
        ),
        migrations.CreateModel(
            name='MetadataPair',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=40)),
                ('value', models.CharField(max_length=200)),
                ('action', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='metadata', to='approvals.pendingaction')),
            ],
            options={
                'ordering': ['id'],
                'indexes': [models.Index(fields=['name', 'value', 'action'], name='metadata_by_value')],
                'constraints': [models.UniqueConstraint(fields=('action', 'name'), name='metadata_name_once')],
            },
        ),
        migrations.CreateModel(
            name='Notification',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('stage', models.CharField(max_length=12)),
                ('about', models.CharField(max_length=60)),
                ('created_at', models.DateTimeField()),
                ('due_at', models.DateTimeField()),
                ('state', models.CharField(default='waiting', max_length=8)),
                ('attempts', models.PositiveSmallIntegerField(default=0)),
                ('delivery', models.UUIDField(null=True)),
                ('sent_at', models.DateTimeField(null=True)),
                ('code', models.CharField(blank=True, max_length=40)),
                ('receipt', models.CharField(blank=True, max_length=200)),
                ('withdraw_at', models.DateTimeField(null=True)),
                ('action', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='approvals.pendingaction')),
                ('mailbox', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.mailbox')),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('channel', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='notifications', to='approvals.notificationchannel')),
            ],
            options={
                'ordering': ['-created_at', '-id'],
                'indexes': [models.Index(condition=models.Q(('state', 'waiting')), fields=['due_at'], name='notification_due'), models.Index(condition=models.Q(('state', 'sending')), fields=['due_at'], name='notification_sending'), models.Index(condition=models.Q(('withdraw_at__isnull', False)), fields=['withdraw_at'], name='notification_withdrawn'), models.Index(fields=['user', '-created_at', '-id'], name='notification_newest'), models.Index(fields=['created_at'], name='notification_old')],
                'constraints': [models.UniqueConstraint(fields=('channel', 'about', 'stage'), name='notification_once')],
            },
        ),
        migrations.CreateModel(
            name='Presence',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('seen_at', models.DateTimeField()),
                ('action', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='approvals.pendingaction')),
                ('person', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'indexes': [models.Index(fields=['seen_at'], name='presence_seen')],
                'constraints': [models.UniqueConstraint(fields=('action', 'person'), name='presence_once')],
            },
        ),
        migrations.CreateModel(
            name='Reminder',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('stage', models.CharField(max_length=12)),
                ('due_at', models.DateTimeField()),
                ('action', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='approvals.pendingaction')),
            ],
            options={
                'indexes': [models.Index(fields=['due_at'], name='reminder_due')],
                'constraints': [models.UniqueConstraint(fields=('action', 'stage'), name='reminder_once')],
            },
        ),
        migrations.CreateModel(
            name='Revision',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('number', models.PositiveIntegerField()),
                ('payload', models.JSONField()),
                ('preview', models.JSONField()),
                ('digest', models.CharField(max_length=64)),
                ('created_at', models.DateTimeField()),
                ('changed', models.JSONField(default=list)),
                ('sealed_payload', models.BinaryField(null=True)),
                ('sealed_preview', models.BinaryField(null=True)),
                ('action', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='revisions', to='approvals.pendingaction')),
                ('author', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ['number'],
                'constraints': [models.UniqueConstraint(fields=('action', 'number'), name='revision_once')],
            },
        ),
        migrations.CreateModel(
            name='Seen',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('revision', models.PositiveIntegerField()),
                ('action', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='approvals.pendingaction')),
                ('person', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('action', 'person'), name='seen_once')],
            },
        ),
        migrations.CreateModel(
            name='WebhookCursor',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('sequence', models.PositiveBigIntegerField()),
                ('mailbox', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.mailbox')),
                ('webhook', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='cursors', to='approvals.webhook')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('webhook', 'mailbox'), name='webhook_cursor_once'), models.UniqueConstraint(condition=models.Q(('mailbox', None)), fields=('webhook',), name='webhook_cursor_of_people_once')],
            },
        ),
        migrations.CreateModel(
            name='Assignment',
            fields=[
                ('action', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='assignment', serialize=False, to='approvals.pendingaction')),
                ('person', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
        ),
        migrations.CreateModel(
            name='Watch',
            fields=[
                ('action', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='watch', serialize=False, to='approvals.pendingaction')),
                ('message_id', models.CharField(blank=True, max_length=255)),
                ('began_at', models.DateTimeField()),
                ('ends_at', models.DateTimeField(null=True)),
                ('answered_at', models.DateTimeField(null=True)),
                ('answered_by', models.TextField(blank=True)),
                ('follow_up_at', models.DateTimeField(null=True)),
                ('unanswered_at', models.DateTimeField(null=True)),
                ('note', models.TextField(blank=True)),
                ('reports', models.TextField(blank=True)),
                ('mailbox', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.mailbox')),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('ends_at__isnull', False)), fields=['mailbox', 'message_id'], name='watch_of_mailbox'), models.Index(condition=models.Q(('follow_up_at__isnull', False)), fields=['follow_up_at'], name='watch_follow_up')],
            },
        ),
        migrations.CreateModel(
            name='WebhookDelivery',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('event', models.CharField(max_length=60)),
                ('at', models.DateTimeField()),
                ('tries', models.PositiveSmallIntegerField(default=0)),
                ('next_at', models.DateTimeField(null=True)),
                ('tried_at', models.DateTimeField(null=True)),
                ('delivered_at', models.DateTimeField(null=True)),
                ('answer', models.CharField(blank=True, max_length=20)),
                ('action', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='approvals.pendingaction')),
                ('link', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='approvals.auditevent')),
                ('webhook', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='deliveries', to='approvals.webhook')),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('next_at__isnull', False)), fields=['next_at'], name='webhook_delivery_due'), models.Index(fields=['webhook', '-at', '-id'], name='webhook_delivery_newest'), models.Index(fields=['at'], name='webhook_delivery_old')],
            },
        ),
    ]
    operations = [
        CreateModels(tables),
        *import_module("approvals.migrations.0020_event_notifications").Migration.operations,
        migrations.RunPython(guards.install_in_migration, guards.remove_in_migration),
    ]
