"""The words of a proposer about an action: stored with it, shown as a claim, and found again."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.db.models import Exists, OuterRef, QuerySet

from approvals.audit import chain
from approvals.core.signatures import digest_of
from approvals.core.types import Remarks
from approvals.models import MetadataPair, PendingAction, ProposerNote


def store(action: PendingAction, remarks: Remarks) -> dict[str, Any]:
    """Store the remarks with a new action; return members for the audit event of the proposal.

    The audit gets a keyed hash: it proves what the approver read, and says nothing about it.
    """
    if not (remarks.reason or remarks.metadata or remarks.callback_url):
        return {}
    if remarks.reason or remarks.callback_url:
        ProposerNote.objects.create(
            action=action, reason=remarks.reason, callback_url=remarks.callback_url
        )
    MetadataPair.objects.bulk_create(
        MetadataPair(action=action, name=name, value=value)
        for name, value in remarks.metadata.items()
    )
    return {"said": hash_of(action.pk, remarks)}


def hash_of(action_id: UUID, remarks: Remarks) -> str:
    """Return the keyed hash of what the proposer said about this action."""
    said = {
        "action": str(action_id),
        "reason": remarks.reason,
        "metadata": dict(remarks.metadata),
        "callback_url": remarks.callback_url,
    }
    return chain.keyed_hash(digest_of(said))


def remarks_of(action: PendingAction) -> Remarks:
    """Return what the proposer said; empty after a purge."""
    note = ProposerNote.objects.filter(action=action).first()
    pairs = MetadataPair.objects.filter(action=action).order_by("pk")
    return Remarks(
        reason=note.reason if note else "",
        metadata=dict(pairs.values_list("name", "value")),
        callback_url=note.callback_url if note else "",
    )


def metadata_of(action: PendingAction) -> dict[str, str]:
    """Return the metadata in the order in which it was given."""
    if action.first_event is not None and "said" not in action.first_event.data:
        return {}
    return {pair.name: pair.value for pair in action.metadata.all()}


def with_metadata(
    actions: QuerySet[PendingAction], wanted: Mapping[str, str]
) -> QuerySet[PendingAction]:
    """Return the actions that have all of these pairs."""
    for name, value in wanted.items():
        pair = MetadataPair.objects.filter(action=OuterRef("pk"), name=name, value=value)
        actions = actions.filter(Exists(pair))
    return actions


def delete(action_id: UUID) -> None:
    """Delete what was said about an action that ended long ago."""
    ProposerNote.objects.filter(action=action_id).delete()
    MetadataPair.objects.filter(action=action_id).delete()
