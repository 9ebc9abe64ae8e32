"""The pending action, its revisions and blobs, and the idempotency records that lead to it."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

import structlog
from django.conf import settings
from django.db import models, transaction
from django.db.models import F, Q
from django.utils.translation import gettext

from accounts.infra.credentials import CannotDecrypt
from accounts.infra.fields import EncryptedBinaryField
from accounts.infra.keys import sign_values, verify_values
from accounts.models import Mailbox
from approvals.core import at_rest
from approvals.core.states import NEEDS_APPROVALS, TRANSITIONS, Status

if TYPE_CHECKING:
    from approvals.models.audit import AuditEvent

log = structlog.get_logger(__name__)

ORDER = "mailhub order to leave"


class PendingAction(models.Model):
    """An action that may happen once a person has approved exactly this content.

    The payload is in Revision rows, which are only added. `revision` is the number of the newest,
    and `digest` repeats its digest so that one row says which content is approved. `approval_round`
    counts how often decisions were made void. `returned` is the last reason if it was not a
    person: `{"code", "detail", "warnings"}`. `send_at` is the requested moment; `not_before` is
    the one that holds now, with undo window and back-off. `replaces` is the action whose place
    this one took. `fingerprint` is of what the proposer wrote, even after edits, and
    `edited_fingerprint` of the present content. `differs_in_sent` names the differences of the
    copy in Sent from the approved mail. `unsettled_at` is the time at which the work after the
    send, such as the copy in Sent, was given up. `rules_version` is the version of the recipient
    rules under which it was approved. `token_generation` and `mailbox_generation` are those that
    its present revision shows. `order_seal` proves that mailhub itself ordered it to leave. `risk`
    repeats the most severe warning of the present revision, only for the order of lists.
    `restored_at` is the time of the restore that brought the row back: it may have been sent
    between the copy and then. It is `unreconciled` until `after_restore` has looked.

    `first_event` is the audit event of the proposal in the process that has just stored it: nothing
    has happened to the action since.
    """

    first_event: AuditEvent | None = None
    _current: Revision | None = None

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    kind = models.CharField(max_length=40)
    tool = models.CharField(max_length=40)
    # Indexes below begin with the mailbox and with the proposer.
    mailbox = models.ForeignKey(Mailbox, models.PROTECT, related_name="+", db_index=False)
    proposer = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.PROTECT, related_name="+", db_index=False
    )
    proposer_name = models.CharField(max_length=100, blank=True)
    token_id = models.UUIDField(null=True)
    replaces = models.OneToOneField("self", models.PROTECT, null=True, related_name="superseded_by")
    status = models.CharField(max_length=12, choices=Status.choices, default=Status.PENDING)
    revision = models.PositiveIntegerField(default=1)
    digest = models.CharField(max_length=64)
    message_id = models.CharField(max_length=255)
    fingerprint = models.CharField(max_length=64)
    # NULL if it was never another one, so that the index has few actions.
    edited_fingerprint = models.CharField(max_length=64, null=True)
    approval_round = models.PositiveIntegerField(default=1)
    approvals_needed = models.PositiveSmallIntegerField(default=1)
    approvals_given = models.PositiveSmallIntegerField(default=0)
    rules_version = models.PositiveIntegerField(default=0)
    token_generation = models.PositiveIntegerField(default=0)
    mailbox_generation = models.PositiveIntegerField(default=0)
    order_seal = models.CharField(max_length=80, blank=True)
    risk = models.PositiveSmallIntegerField(default=0)
    restored_at = models.DateTimeField(null=True)
    unreconciled = models.BooleanField(default=False)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    approved_at = models.DateTimeField(null=True)
    approved_until = models.DateTimeField(null=True)
    undo_until = models.DateTimeField(null=True)
    send_at = models.DateTimeField(null=True)
    not_before = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    purged_at = models.DateTimeField(null=True)
    fence = models.PositiveIntegerField(default=0)
    lease_until = models.DateTimeField(null=True)
    next_probe_at = models.DateTimeField(null=True)
    probes = models.PositiveSmallIntegerField(default=0)
    settle_at = models.DateTimeField(null=True)
    settling_until = models.DateTimeField(null=True)  # the lease of the process that does it
    settle_tries = models.PositiveSmallIntegerField(default=0)
    unsettled_at = models.DateTimeField(null=True)
    differs_in_sent = models.JSONField(null=True)
    receipt = models.JSONField(null=True)
    error = models.JSONField(null=True)
    returned = models.JSONField(null=True)

    class Meta:
        ordering = ["created_at", "id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(status__in=Status.values), name="action_known_status"
            ),
            models.CheckConstraint(
                condition=~Q(status__in=NEEDS_APPROVALS)
                | Q(approvals_given__gte=F("approvals_needed")),
                name="action_approved_needs_decisions",
            ),
            models.CheckConstraint(
                condition=Q(approvals_needed__gte=1), name="action_needs_a_person"
            ),
            models.CheckConstraint(
                condition=Q(status=Status.SUCCEEDED, receipt__isnull=False)
                | (~Q(status=Status.SUCCEEDED) & Q(receipt__isnull=True)),
                name="action_succeeded_has_receipt",
            ),
            models.CheckConstraint(
                condition=Q(status=Status.EXECUTING, lease_until__isnull=False)
                | (~Q(status=Status.EXECUTING) & Q(lease_until__isnull=True)),
                name="action_executing_has_lease",
            ),
            models.CheckConstraint(
                condition=Q(send_at__isnull=True) | Q(expires_at__gt=F("send_at")),
                name="action_expires_after_it_may_leave",
            ),
            # Not `unique=True`, which on PostgreSQL adds an index for LIKE.
            models.UniqueConstraint(fields=["message_id"], name="action_message_id_once"),
            # Mails of one mailbox leave one after the other, however many workers there are.
            models.UniqueConstraint(
                fields=["mailbox"],
                condition=Q(status=Status.EXECUTING),
                name="action_one_leaving_a_mailbox",
            ),
        ]
        indexes = [
            models.Index(
                fields=["mailbox", "status", "created_at", "id"], name="action_queue_page"
            ),
            models.Index(fields=["mailbox", "fingerprint", "created_at"], name="action_duplicates"),
            models.Index(
                fields=["mailbox", "edited_fingerprint", "created_at"],
                condition=Q(edited_fingerprint__isnull=False),
                name="action_edited_duplicates",
            ),
            models.Index(
                fields=["mailbox", "expires_at", "id"],
                condition=Q(status=Status.PENDING),
                name="action_queue_by_expiry",
            ),
            models.Index(
                fields=["mailbox", "-risk", "created_at", "id"],
                condition=Q(status=Status.PENDING),
                name="action_queue_by_risk",
            ),
            models.Index(fields=["proposer", "created_at", "id"], name="action_of_proposer"),
            models.Index(
                fields=["mailbox", "proposer", "proposer_name", "created_at"],
                name="action_of_agent",
            ),
            models.Index(
                fields=["not_before", "mailbox", "id"],
                condition=Q(status=Status.APPROVED),
                name="action_due",
            ),
            models.Index(
                fields=["mailbox", "not_before"],
                condition=Q(status=Status.APPROVED),
                name="action_due_of_mailbox",
            ),
            models.Index(
                fields=["lease_until"], condition=Q(status=Status.EXECUTING), name="action_leased"
            ),
            models.Index(
                fields=["next_probe_at"], condition=Q(status=Status.UNKNOWN), name="action_to_probe"
            ),
            models.Index(
                fields=["settle_at"], condition=Q(settle_at__isnull=False), name="action_to_settle"
            ),
            models.Index(
                fields=["expires_at"],
                condition=Q(status__in=[Status.PENDING, Status.APPROVED]),
                name="action_expiring",
            ),
            models.Index(
                fields=["mailbox", "finished_at"],
                condition=Q(status=Status.SUCCEEDED),
                name="action_left_a_mailbox",
            ),
            models.Index(
                fields=["finished_at"],
                condition=Q(finished_at__isnull=False, purged_at__isnull=True),
                name="action_to_purge",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.id} {self.status}"

    def move(self, source: Status, target: Status, *conditions: Q, **changes: Any) -> bool:
        """Change the state with one conditional UPDATE; return False if another process was first.

        This is the only way to change it. A move to `approved` also signs the order to leave, for
        the row as `self` shows it: lock the row first.
        """
        assert target in TRANSITIONS[source], f"{source} → {target} is not a transition"
        if target is not Status.EXECUTING:
            changes.setdefault("lease_until", None)
        if target is Status.APPROVED:
            changes["order_seal"] = self.sign_order()
        mine = type(self).objects.filter(*conditions, pk=self.pk, status=source)
        with transaction.atomic(savepoint=False):  # nobody moves it on before it is read
            moved = mine.update(status=target, **changes) > 0
            if moved:
                self.refresh_from_db(fields=["status", *changes])
        return moved

    def sign_order(self) -> str:
        """Return the signature that lets this action leave once, from the state that it shows now.

        It is made again each time the action becomes `approved`. Somebody who can write to the
        database, but has no key, cannot make one.
        """
        return sign_values(*self._order_parts(), purpose=ORDER)

    def has_order(self) -> bool:
        """Return True if mailhub ordered this action to leave with its present content and fence.

        A claim moves the fence, so an order is good for one claim.
        """
        return verify_values(self.order_seal, *self._order_parts(), purpose=ORDER)

    def _order_parts(self) -> Iterable[Any]:
        return (
            str(self.pk),
            self.kind,
            str(self.mailbox_id),
            self.message_id,
            self.digest,
            self.revision,
            self.approval_round,
            self.fence,
        )

    @property
    def proposed_by(self) -> str:
        """The agent or person who proposed it, in the active language: an agent may be named like a person."""
        if self.proposer_name:
            return gettext("Agent %(name)s") % {"name": self.proposer_name}
        return str(self.proposer)

    @property
    def current(self) -> Revision:
        """Return the present revision; it is read once, because a revision never changes."""
        if self._current is None or self._current.number != self.revision:
            self._current = self.revisions.get(number=self.revision)
        return self._current

    @current.setter
    def current(self, revision: Revision) -> None:
        self._current = revision

    @property
    def is_final(self) -> bool:
        return Status(self.status) not in TRANSITIONS


class Author(models.Model):
    """A person whose words an action holds, or may hold. The set of an action only grows.

    It has the proposer, each editor, the writer of the draft that it sends, the authors of the
    action that it replaces, and the people who had asked for changes there. A proposer who replaces
    an action need not write a word.
    """

    action = models.ForeignKey(
        PendingAction, models.CASCADE, related_name="authors", db_index=False
    )
    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.PROTECT, related_name="+", db_index=False
    )

    class Meta:
        constraints = [models.UniqueConstraint(fields=["action", "person"], name="author_once")]

    def __str__(self) -> str:
        return f"{self.person_id} wrote {self.action_id}"


class Revision(models.Model):
    """One version of an action's content; it is never changed, only followed by another one.

    `changed` names the fields that differ from the proposal. A revision with the digest of the one
    before has the same content; its preview shows a new finding about it.

    The payload and the content of the preview are encrypted at rest (`approvals.core.at_rest`). A
    row that is read with all columns has them decrypted in `payload` and `preview`. `unreadable` is
    True if no key opened them, or if only one of them is encrypted: without a key, somebody can
    only write in clear.
    """

    unreadable = False

    action = models.ForeignKey(
        PendingAction, models.CASCADE, related_name="revisions", db_index=False
    )
    number = models.PositiveIntegerField()
    author = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="+")
    payload = models.JSONField()
    preview = models.JSONField()
    sealed_payload = models.BinaryField(null=True, editable=False)
    sealed_preview = models.BinaryField(null=True, editable=False)
    changed = models.JSONField(default=list)
    digest = models.CharField(max_length=64)
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["number"]
        constraints = [models.UniqueConstraint(fields=["action", "number"], name="revision_once")]

    def __str__(self) -> str:
        return f"{self.action_id} r{self.number}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Add the row, encrypted; it is never saved again."""
        assert self._state.adding, "a revision is never changed"
        payload, preview = self.payload, self.preview
        at_rest.encrypt_revision(self)
        super().save(*args, **kwargs)
        self.payload, self.preview = payload, preview

    @classmethod
    def from_db(
        cls, db: str | None, field_names: Collection[str], values: Collection[Any], **more: Any
    ) -> Revision:
        revision = super().from_db(db, field_names, values, **more)
        loaded = revision.__dict__
        for part, other in (("payload", "preview"), ("preview", "payload")):
            record = loaded.get(f"sealed_{part}")
            if record is None and part in loaded and loaded.get(f"sealed_{other}") is not None:
                revision.unreadable = True
            elif record is not None and part in loaded:
                try:
                    opened = at_rest.open_part(
                        part, loaded[part], record, revision.action_id, revision.number
                    )
                except CannotDecrypt:
                    revision.unreadable = True
                    log.warning("content_not_decrypted", action=str(revision.action_id), kind=part)
                else:
                    setattr(revision, part, opened)
        return revision

    @property
    def is_ours(self) -> bool:
        """Return True if a key opens it, so that nobody without a key has written it."""
        return self.sealed_preview is not None and not self.unreadable


class Blob(models.Model):
    """Bytes that a payload names by their SHA-256: the message as it will leave, attachments.

    They are encrypted in `content`. `approvals.gate.load` reads them.
    """

    action = models.ForeignKey(PendingAction, models.CASCADE, related_name="blobs")
    sha256 = models.CharField(max_length=64)
    content = EncryptedBinaryField(bound_by=["action_id", "sha256"])

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["action", "sha256"], name="blob_once_an_action"),
        ]

    def __str__(self) -> str:
        return self.sha256


class IdempotencyRecord(models.Model):
    """The action that an idempotency key led to. The key is valid as long as the action exists."""

    mailbox = models.ForeignKey(Mailbox, models.CASCADE, related_name="+")
    proposer = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    proposer_name = models.CharField(max_length=100, blank=True)
    tool = models.CharField(max_length=40)
    key = models.CharField(max_length=255)
    request_digest = models.CharField(max_length=64)
    action = models.ForeignKey(PendingAction, models.CASCADE, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["mailbox", "proposer", "proposer_name", "tool", "key"],
                name="idempotency_key_once",
            )
        ]

    def __str__(self) -> str:
        return f"{self.tool} {self.action_id}"
