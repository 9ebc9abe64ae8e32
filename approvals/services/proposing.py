"""Storing a proposal for a person to decide."""

import hashlib
from dataclasses import asdict
from datetime import timedelta

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils import timezone

from accounts.caller import Caller
from accounts.models import Mailbox
from accounts.problems import Problem
from approvals import audit
from approvals.digest import digest_of
from approvals.models import ApprovalPolicy, Blob, IdempotencyRecord, PendingAction, Revision
from approvals.statements import Select, columns_of, instance, slot
from approvals.states import Status
from approvals.types import Proposal

_policy = Select(
    lambda: ApprovalPolicy.objects.filter(mailbox=slot(ApprovalPolicy, "mailbox")).values_list(
        *columns_of(ApprovalPolicy)
    )
)


def policy_of(mailbox: Mailbox) -> ApprovalPolicy:
    found = _policy.first(mailbox=mailbox.pk)
    return instance(ApprovalPolicy, found) if found else ApprovalPolicy(mailbox=mailbox)


def replay(
    *, caller: Caller, mailbox: Mailbox, tool: str, key: str | None, request_digest: str
) -> PendingAction | None:
    """The action this key already led to, or None. Raises `idempotency_mismatch` when the request was another."""
    if key is None:
        return None
    record = (
        IdempotencyRecord.objects.filter(
            mailbox=mailbox, proposer=caller.user, proposer_name=caller.name, tool=tool, key=key
        )
        .select_related("action__mailbox")
        .first()
    )
    if record is None:
        return None
    if record.request_digest != request_digest:
        raise Problem("idempotency_mismatch", "This key was used for another request. Use a new key for a new request.")
    return record.action


@transaction.atomic
def propose(
    *, caller: Caller, mailbox: Mailbox, tool: str, proposal: Proposal, key: str | None, request_digest: str
) -> tuple[PendingAction, bool]:
    """Store a proposal for a person to decide. Returns the action, and whether the key had led to it before.

    1. The action, its first revision and the bytes it names.
    2. The idempotency record; when another request with this key was faster, its action is the answer.
    3. The audit event.
    """
    now = timezone.now()
    digest = digest_of(proposal.payload)
    try:
        with transaction.atomic():  # a savepoint: an IntegrityError must not poison the whole
            action = PendingAction.objects.create(
                kind=proposal.kind,
                tool=tool,
                mailbox=mailbox,
                proposer=caller.user,
                proposer_name=caller.name,
                token_id=caller.token.id if caller.token else None,
                digest=digest,
                message_id=proposal.message_id,
                fingerprint=proposal.preview.fingerprint,
                approvals_needed=policy_of(mailbox).approvals_needed,
                created_at=now,
                send_at=proposal.send_at,
                # Waiting for its moment is no reason to expire before it.
                expires_at=max(now, proposal.send_at or now) + timedelta(hours=settings.MAILHUB_ACTION_TTL_HOURS),
            )
            if key is not None:
                IdempotencyRecord.objects.create(
                    mailbox=mailbox,
                    proposer=caller.user,
                    proposer_name=caller.name,
                    tool=tool,
                    key=key,
                    request_digest=request_digest,
                    action=action,
                )
    except IntegrityError:
        earlier = replay(caller=caller, mailbox=mailbox, tool=tool, key=key, request_digest=request_digest)
        if earlier is None:
            raise
        return earlier, True
    Revision.objects.create(
        action=action,
        number=1,
        author=caller.user,
        payload=proposal.payload,
        preview=asdict(proposal.preview),
        digest=digest,
        created_at=now,
    )
    Blob.objects.bulk_create(
        Blob(action=action, sha256=hashlib.sha256(content).hexdigest(), content=content) for content in proposal.blobs
    )
    audit.record(
        mailbox=mailbox, event="created", actor=actor_of(caller), action_id=action.id, digest=digest, tool=tool
    )
    return action, False


def duplicates_of(*, mailbox: Mailbox, fingerprint: str, window: timedelta) -> bool:
    """Whether somebody would call an action of this mailbox, within the window, the same."""
    return PendingAction.objects.filter(
        mailbox=mailbox, fingerprint=fingerprint, created_at__gt=timezone.now() - window
    ).exists()


def open_twin(*, mailbox: Mailbox, fingerprint: str) -> bool:
    """Whether the same is waiting already, however long."""
    return PendingAction.objects.filter(
        mailbox=mailbox, fingerprint=fingerprint, status__in=(Status.PENDING, Status.APPROVED)
    ).exists()


def actor_of(caller: Caller) -> str:
    return f"token:{caller.token.id}" if caller.token else f"user:{caller.user.pk}"
