"""Other actions of a mailbox with the fingerprint of a new one: the same mail, proposed before.

An action has two: of what its proposer wrote, such as HTML, and of its present content, as words. An
edit knows only the latter. Earlier edits cannot leave any more.
"""

from collections.abc import Collection
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

from django.conf import settings
from django.db.models import Q, QuerySet
from django.utils import timezone

from accounts.infra.texts import translatable
from accounts.models import Mailbox
from approvals.core.states import Status
from approvals.core.types import PreviewWarning, Proposal, get_kind
from approvals.gate.load import Read
from approvals.gate.outcome import RESTORED, warn_of_doubt
from approvals.gate.reconcile import find_gone, is_unproven
from approvals.gate.revisions import filter_new_warnings
from approvals.models import Attempt, PendingAction

RECENT = PreviewWarning(
    code="possible_duplicate",
    title=translatable("Possible duplicate."),
    text=translatable("The same was proposed moments ago, or may have been carried out."),
)
TWIN_IN_DOUBT = translatable("An earlier proposal of the same may have been carried out.")


def warn_of_twin(mailbox: Mailbox, proposal: Proposal, *, besides: UUID | None = None) -> Proposal:
    """Return the content with warnings if a twin may have happened; `besides` is its own action."""
    if not has_doubtful(mailbox, proposal.fingerprints, besides=besides):
        return proposal
    return _warn(_warn(proposal, warn_of_doubt(proposal.kind, TWIN_IN_DOUBT)), RECENT)


def find_news(read: Read) -> tuple[PreviewWarning, ...]:
    """Return what has come up since the present revision: about the content, as its kind finds by a
    recheck, and about its twins. Raises what the recheck raises.
    """
    action = read.action
    found = get_kind(action.kind).recheck(read.to_approved())
    return (*(filter_new_warnings(action, found) if found else ()), *find_doubt(action))


def find_doubt(action: PendingAction) -> tuple[PreviewWarning, ...]:
    """Return warnings if a twin may have happened since the action was proposed, and no page says so.

    The first one names the event of the audit, in which the code of the second means a restore.
    """
    current = action.current
    if any(each.get("code") == RESTORED for each in current.preview.get("warnings", ())):
        return ()
    names = {current.preview.get("fingerprint", "")}
    if not current.changed:  # an edit has left what was proposed
        names.add(action.fingerprint)
    if not has_doubtful(action.mailbox, names, besides=action.pk):
        return ()
    return RECENT, warn_of_doubt(action.kind, TWIN_IN_DOUBT)


def warn_of_recent(mailbox: Mailbox, proposal: Proposal) -> Proposal:
    """Return the proposal with a warning if a twin was stored while it was composed."""
    recent = has_recent(mailbox, proposal.fingerprints)
    return _warn(proposal, RECENT) if recent else proposal


def _warn(proposal: Proposal, warning: PreviewWarning) -> Proposal:
    preview = proposal.preview
    if warning.code in {each.code for each in preview.warnings}:
        return proposal
    return replace(proposal, preview=replace(preview, warnings=(*preview.warnings, warning)))


def has_recent(
    mailbox: Mailbox, fingerprints: Collection[str], *, besides: UUID | None = None
) -> bool:
    """Return True if one was proposed within the window, or is leaving, or it is not known whether
    it left.
    """
    since = timezone.now() - timedelta(seconds=settings.DUPLICATE_WINDOW_SECONDS)
    under_way = Q(status__in=(Status.EXECUTING, Status.UNKNOWN))
    twins = _twins(mailbox, fingerprints, besides)
    return twins.filter(Q(created_at__gt=since) | under_way).exists()


def has_doubtful(
    mailbox: Mailbox, fingerprints: Collection[str], *, besides: UUID | None = None
) -> bool:
    """Return True if one may have happened, or did, and its state does not show it, however old it
    is.
    """
    same = Q(action__fingerprint__in=fingerprints) | Q(action__edited_fingerprint__in=fingerprints)
    # A join, not a condition of each twin: PostgreSQL might read all attempts for that one.
    unshown = Q(verdict=Attempt.Verdict.ACCEPTED) & ~Q(action__status=Status.SUCCEEDED)
    unproven = Attempt.objects.filter(
        is_unproven() | unshown, same, action__mailbox=mailbox
    ).exclude(action=besides)
    gone = find_gone().filter(same, action__mailbox=mailbox).exclude(action=besides)
    came_back = _twins(mailbox, fingerprints, besides).filter(restored_at__isnull=False)
    found = came_back.values_list("pk").union(
        *(each.order_by().values_list("action") for each in (unproven, gone)), all=True
    )
    return bool(found[:1])


def has_open(mailbox: Mailbox, fingerprints: Collection[str]) -> bool:
    """Return True if one is pending or approved, however old it is."""
    open_ = (Status.PENDING, Status.APPROVED)
    return _twins(mailbox, fingerprints, None).filter(status__in=open_).exists()


def _twins(
    mailbox: Mailbox, fingerprints: Collection[str], besides: UUID | None
) -> QuerySet[PendingAction]:
    same = Q(fingerprint__in=fingerprints) | Q(edited_fingerprint__in=fingerprints)
    found = PendingAction.objects.filter(same, mailbox=mailbox).order_by()
    return found.exclude(pk=besides) if besides else found
