"""Actions of a reviewer other than a decision: edit the content, or ask the proposer back."""

from uuid import UUID

from django.db import transaction

from accounts.access.provider_calls import limit_waiting
from accounts.access.rate_limits import count_stored_by
from accounts.infra.database import database_now
from accounts.infra.problems import FieldError, Problem
from accounts.infra.texts import join, translatable
from accounts.infra.transactions import retry_if_rolled_back
from accounts.models import User
from approvals.audit import chain
from approvals.core.states import SENTENCES, Status
from approvals.core.types import (
    ActionKind,
    Changes,
    EditField,
    PreviewWarning,
    Proposal,
    Revisable,
    get_kind,
)
from approvals.gate import differences, revisions
from approvals.gate import differences as comparing
from approvals.gate.decide import STALE, record_decision
from approvals.gate.load import UNSEEN, blob_of, lock_action
from approvals.gate.news import add_news
from approvals.gate.reconcile import may_have_left
from approvals.gate.revisions import add_revision
from approvals.gate.rules.policy import judge, leave_from, policy_of, refusal_to_decide
from approvals.gate.twins import warn_of_twin
from approvals.models import Decision, PendingAction, Revision

READ_NOTE = translatable("Read the note before you decide.")


@retry_if_rolled_back
def edit(
    *, action_id: UUID, person: User, digest: str, revision: int, changes: Changes
) -> PendingAction:
    """Store a reviewer's edit as a new revision under the same id; every earlier decision is void.

    `changes` hold the input by the names of `edit_fields`. The editor becomes an author: where the
    proposer may not approve, the editor may not either. An edit that changes nothing is ignored.

    Raises `forbidden`, and `conflict` if the stored content is not the shown one or is decided.
    Raises `policy_blocked` if the rules refuse a target, and `invalid_input` with the names of the
    fields. Raises `transient` if the object storage does not answer, and `rate_limited` if the person
    has stored too much.
    """
    action = PendingAction.objects.select_related("mailbox").get(pk=action_id)
    _refuse(action, person, digest, revision, event="edit_refused")
    kind = get_kind(action.kind)
    if not kind.is_editable:
        raise Problem("invalid_input", "This cannot be edited. Ask for another proposal.")
    current = action.current
    # The findings that new content keeps are read from all of them.
    if not all(each.is_ours for each in action.revisions.all()):
        raise Problem("conflict", UNSEEN)
    # Outside any transaction: composing may call the provider.
    with limit_waiting(person.pk, action.mailbox_id):
        proposal = _compose(action, current, kind, changes)
    fields = kind.fields(proposal.payload)
    if not comparing.compare_fields(kind.fields(current.payload), fields):
        return action
    first = action.revisions.get(number=1)
    changed = [one.name for one in comparing.compare_fields(kind.fields(first.payload), fields)]
    count_stored_by(person, sum(map(len, proposal.blobs)))
    prepared = revisions.prepare_blobs(proposal.blobs, action_id=action_id)
    with transaction.atomic():
        action = lock_action(action_id)
        refusal = _refusal(action, person, digest, revision)
        if refusal is None:
            _store_edit(action, person, proposal, prepared, changed)
    if refusal:
        raise refusal
    return action


def _compose(
    action: PendingAction, current: Revision, kind: ActionKind, changes: Changes
) -> Proposal:
    """Return the edited content; raises Problem if it is invalid or the rules refuse a target."""
    proposal = kind.revise(
        Revisable(
            id=action.pk,
            payload=current.payload,
            preview=current.preview,
            blob=lambda sha256: blob_of(action, sha256),
        ),
        changes,
    )
    judge(action.mailbox, [target.address for target in proposal.preview.targets])
    if proposal.message_id != action.message_id:
        raise ValueError("a revision keeps the id by which the effect is found again")
    return warn_of_twin(action.mailbox, proposal, besides=action.pk)


def _store_edit(
    action: PendingAction,
    person: User,
    proposal: Proposal,
    prepared: revisions.PreparedBlobs,
    changed: list[str],
) -> None:
    add_revision(
        action,
        author=person,
        payload=proposal.payload,
        preview=proposal.preview.as_json(),
        changed=changed,
        blobs=prepared,
        **leave_from(policy_of(action.mailbox), now=database_now(), send_at=proposal.send_at),
        edited_fingerprint=proposal.preview.fingerprint,
        approval_round=action.approval_round + 1,
    )
    chain.record(
        mailbox=action.mailbox,
        event="edited",
        actor=f"user:{person.pk}",
        action_id=action.id,
        digest=action.digest,
        revision=action.revision,
        changed=changed,
    )


def edit_fields(action: PendingAction) -> tuple[EditField, ...]:
    """Return the fields that a reviewer may change, with their present values.

    It is empty if the kind cannot be edited or the content has been purged.
    """
    return differences.fields_of(action, action.revision)


def may_be_edited(action: PendingAction) -> bool:
    """Return True if a person who may decide may edit the action now."""
    refusal = _refusal_of_state(action, action.digest, action.revision)
    return refusal is None and get_kind(action.kind).is_editable


@retry_if_rolled_back
def ask_back(
    *,
    action_id: UUID,
    person: User,
    digest: str,
    revision: int,
    note: str,
    passage: str = "",
    method: str = "",
) -> PendingAction:
    """Ask the proposer for another proposal, with a note, which may be about a passage of the mail.

    The action stays open; approvals given so far are void.

    Raises `forbidden`, `conflict` if the stored content is not the shown one or is decided, and
    `invalid_input` without a note.
    """
    if not note.strip():
        raise Problem(
            "invalid_input",
            "Say what should be different.",
            errors=(FieldError(field="note", message=translatable("is empty")),),
        )
    with transaction.atomic():
        action = lock_action(action_id)
        refusal = _refusal(action, person, digest, revision)
        if refusal is None:
            following = action.approval_round + 1
            PendingAction.objects.filter(pk=action.pk).update(
                approval_round=following, approvals_given=0
            )
            action.refresh_from_db()
            title = translatable("%(person)s requested changes.", person=str(person))
            add_news(
                action, [PreviewWarning(code="changes_requested", title=title, text=READ_NOTE)]
            )
            record_decision(
                action,
                person,
                Decision.Verdict.CHANGES_REQUESTED,
                method=method,
                note=note.strip(),
                passage=passage.strip(),
            )
        chain.record(
            mailbox=action.mailbox,
            event="ask_back_refused" if refusal else "changes_requested",
            actor=f"user:{person.pk}",
            action_id=action.id,
            revision=revision,
            anchored=True,
        )
    # Raised outside the transaction, so that the audit event of the refusal is kept.
    if refusal:
        raise refusal
    return action


def changes_since(action: PendingAction, revision: int) -> tuple[comparing.FieldChange, ...]:
    """Return how the present content differs from an earlier revision; 1 is the proposal."""
    return differences.find_changes(action, revision, action.revision)


def _refuse(action: PendingAction, person: User, digest: str, revision: int, *, event: str) -> None:
    refusal = _refusal(action, person, digest, revision)
    if refusal is None:
        return
    chain.record(
        mailbox=action.mailbox,
        event=event,
        actor=f"user:{person.pk}",
        action_id=action.id,
        code=refusal.code,
        shown=digest[:64],
        stored=action.digest,
    )
    raise refusal


def _refusal(action: PendingAction, person: User, digest: str, revision: int) -> Problem | None:
    forbidden = refusal_to_decide(person, action.mailbox)
    return forbidden or _refusal_of_state(action, digest, revision)


def _refusal_of_state(action: PendingAction, digest: str, revision: int) -> Problem | None:
    if action.status != Status.PENDING:
        return Problem(
            "conflict",
            join(translatable("It cannot be changed any more."), SENTENCES[Status(action.status)]),
        )
    if action.expires_at <= database_now():
        return Problem("conflict", "It has expired.")
    if action.digest != digest or action.revision != revision:
        return Problem("conflict", STALE)
    # The first content could still be found under its id and be taken for the edited one, and the
    # page of another proposal would not show the doubt.
    if may_have_left(action):
        return Problem(
            "conflict",
            "This may have been sent already, so it cannot be changed. Look in Sent, then approve it as it is or"
            " reject it.",
        )
    return None
