"""Storage of a proposal until a person decides."""

from collections.abc import Collection
from datetime import datetime
from uuid import UUID

from django.conf import settings
from django.db import IntegrityError, transaction

from accounts.access.caller import Caller
from accounts.access.rate_limits import TOKENS_OF_A_PERSON
from accounts.infra.database import database_now
from accounts.infra.problems import Problem, not_found
from accounts.infra.texts import join, translatable
from accounts.infra.transactions import retry_if_rolled_back
from accounts.models import Mailbox, User
from approvals.audit import chain
from approvals.core.risk import rank_risk
from approvals.core.signatures import digest_of
from approvals.core.states import SENTENCES, Status
from approvals.core.types import Proposal, Remarks
from approvals.gate import find, notes, reconcile, revisions
from approvals.gate.revisions import insert_authors
from approvals.gate.rules.policy import leave_from, policy_of, refusal_by_lists
from approvals.gate.twins import warn_of_recent, warn_of_twin
from approvals.models import ApprovalPolicy, IdempotencyRecord, PendingAction, Revision

WAIT_SECONDS = 60  # nobody knows when a person decides


def replay(
    *, caller: Caller, mailbox: Mailbox, tool: str, key: str | None, request_digest: str
) -> PendingAction | None:
    """Return the action that this key already led to, or None.

    Raises `idempotency_mismatch` if the request was another one.
    """
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
        raise Problem(
            "idempotency_mismatch",
            "This key was used for another request. Use a new key for a new request.",
        )
    return record.action


def propose(
    *,
    caller: Caller,
    mailbox: Mailbox,
    tool: str,
    proposal: Proposal,
    key: str | None,
    request_digest: str,
    replaces: str | None = None,
    remarks: Remarks | None = None,
    authors: Collection[int] = (),
) -> tuple[PendingAction, bool]:
    """Store a proposal for a person to decide, and supersede the action that it replaces, if any.

    `remarks` is what the proposer says about it. `authors` are people who wrote its content, besides the proposer.

    Returns the action, and True if the key had led to it before. Raises `policy_blocked` if the
    caller may not propose, or if the rules of the mailbox refuse one of its targets. Raises
    `rate_limited` if too many proposals of this caller wait already, `not_found` or `conflict` if
    the other action cannot be replaced.
    """
    if not caller.may_propose:
        raise Problem(
            "policy_blocked",
            "This changes something, which the mode of the chat does not allow. Tell the person; do"
            " not try another way.",
        )
    policy = policy_of(mailbox)
    targets = [target.address for target in proposal.preview.targets]
    if refusal := refusal_by_lists(policy, targets):
        raise refusal
    if replaces is None:
        _refuse_when_full(caller, mailbox)
    proposal = warn_of_twin(mailbox, proposal)
    prepared = revisions.prepare_blobs(proposal.blobs)
    try:
        action = _store(
            caller,
            mailbox,
            tool,
            proposal,
            prepared,
            policy,
            key,
            request_digest,
            replaces,
            remarks,
            authors,
        )
    except (Problem, IntegrityError):
        # The same request may have been faster, and have replaced the earlier action.
        earlier = replay(
            caller=caller, mailbox=mailbox, tool=tool, key=key, request_digest=request_digest
        )
        if earlier is None:
            raise
        return earlier, True
    return action, False


@retry_if_rolled_back
@transaction.atomic
def _store(
    caller: Caller,
    mailbox: Mailbox,
    tool: str,
    proposal: Proposal,
    prepared: revisions.PreparedBlobs,
    policy: ApprovalPolicy,
    key: str | None,
    request_digest: str,
    replaces: str | None,
    remarks: Remarks | None,
    authors: Collection[int],
) -> PendingAction:
    """Store all of a proposal; raise IntegrityError if the same request was faster."""
    replaced = (
        None
        if replaces is None
        else replaceable(caller=caller, mailbox=mailbox, action_id=replaces)
    )
    # The same request may have been stored while this one waited for the provider.
    proposal = warn_of_recent(mailbox, proposal)
    now, actor = database_now(), caller.actor
    action = _insert(prepared.action_id, caller, mailbox, tool, proposal, policy, now, replaced)
    _remember(action, caller, key, request_digest)
    insert_authors(action, replaced, authors)
    _store_content(action, proposal, author=caller.user, at=now)
    prepared.save()
    said = notes.store(action, remarks) if remarks is not None else {}
    if replaced is not None:
        _supersede(replaced, action, actor=actor, at=now)
    action.first_event = chain.record(
        mailbox=mailbox,
        event="created",
        actor=actor,
        action_id=action.id,
        digest=action.digest,
        tool=tool,
        **said,
    )
    return action


def _insert(
    action_id: UUID,
    caller: Caller,
    mailbox: Mailbox,
    tool: str,
    proposal: Proposal,
    policy: ApprovalPolicy,
    now: datetime,
    replaced: PendingAction | None,
) -> PendingAction:
    present = proposal.preview.fingerprint
    asked = proposal.asked_fingerprint or present
    return PendingAction.objects.create(
        id=action_id,
        kind=proposal.kind,
        tool=tool,
        mailbox=mailbox,
        proposer=caller.user,
        proposer_name=caller.name,
        token_id=caller.token.id if caller.token else None,
        token_generation=caller.token.generation if caller.token else 0,
        mailbox_generation=mailbox.generation,
        replaces=replaced,
        digest=digest_of(proposal.payload),
        message_id=proposal.message_id,
        fingerprint=asked,
        edited_fingerprint=None if present == asked else present,
        approvals_needed=policy.approvals_needed,
        risk=rank_risk(proposal.preview.as_json()["warnings"]),
        created_at=now,
        **leave_from(policy, now=now, send_at=proposal.send_at),
    )


def _remember(action: PendingAction, caller: Caller, key: str | None, request_digest: str) -> None:
    """Store the idempotency record; raises IntegrityError if another request was faster."""
    if key is not None:
        IdempotencyRecord.objects.create(
            mailbox=action.mailbox,
            proposer=caller.user,
            proposer_name=caller.name,
            tool=action.tool,
            key=key,
            request_digest=request_digest,
            action=action,
        )


def _store_content(
    action: PendingAction, proposal: Proposal, *, author: User, at: datetime
) -> None:
    revision = Revision.objects.create(
        action=action,
        number=1,
        author=author,
        payload=proposal.payload,
        preview=proposal.preview.as_json(),
        digest=action.digest,
        created_at=at,
    )
    action.current = revision


def _supersede(replaced: PendingAction, action: PendingAction, *, actor: str, at: datetime) -> None:
    moved = replaced.move(Status.PENDING, Status.SUPERSEDED, finished_at=at)
    assert moved, "the row is locked"
    chain.record(
        mailbox=action.mailbox,
        event="superseded",
        actor=actor,
        action_id=replaced.id,
        by=str(action.id),
    )


def _refuse_when_full(caller: Caller, mailbox: Mailbox) -> None:
    """Raise `rate_limited` if too many proposals of a program or its person wait in a mailbox.

    Proposals that arrive in the same moment may exceed the
    limit by their number.
    """
    most = settings.MAILHUB_PENDING_PROPOSALS
    waiting = PendingAction.objects.filter(
        mailbox=mailbox, status=Status.PENDING, proposer=caller.user
    ).order_by()
    if (
        waiting[: most * TOKENS_OF_A_PERSON].count() >= most * TOKENS_OF_A_PERSON
        or waiting.filter(proposer_name=caller.name)[:most].count() >= most
    ):
        raise Problem(
            "rate_limited",
            "Too many of your proposals wait for a person in this mailbox. Nothing was stored. Withdraw some, or"
            " propose again when they are decided.",
            retry_after=WAIT_SECONDS,
        )


@transaction.atomic
def replaceable(*, caller: Caller, mailbox: Mailbox, action_id: str) -> PendingAction:
    """Return the caller's own action of this mailbox that a new proposal may replace, locked.

    Needs a transaction. Raises `not_found` for any other action. Raises `conflict` if it is
    decided, if it may have been sent, or if a reviewer has edited it and has not asked for changes
    since.
    """
    found = find.find(
        find.of_caller(caller).filter(mailbox=mailbox, proposer=caller.user), action_id
    )
    if found is None:
        raise not_found(
            "The action to be replaced does not exist, or you may not see it. list_actions names yours."
        )
    action = PendingAction.objects.select_for_update(no_key=True, of=("self",)).get(pk=found.pk)
    if action.status != Status.PENDING:
        raise Problem(
            "conflict",
            join(translatable("It cannot be replaced any more."), SENTENCES[Status(action.status)]),
        )
    # The page of another action would not show the doubt.
    if reconcile.may_have_left(action):
        raise Problem(
            "conflict",
            "It may have been sent already, so it cannot be replaced. Ask a person to look in Sent and decide.",
        )
    review = find.review_of(action, reads=False)
    if review is not None and review["verdict"] == "edited":
        raise Problem(
            "conflict",
            "A reviewer has already edited it and continues with that. Do not propose it again.",
        )
    return action
