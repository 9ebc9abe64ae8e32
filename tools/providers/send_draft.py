"""The order in which an approved mail is sent as a draft: once, with proof at each step.

Providers that hold drafts share this order. A provider that takes a mail in one call has no draft
to compare, and does not use it.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol, TypeVar

from accounts.infra.texts import translatable
from approvals.core.types import Proof
from tools.providers.base import Handover, Receipt
from tools.providers.errors import NotSent, ProviderError
from tools.providers.notes import DraftNotes

Read = TypeVar("Read")


GONE_MEANWHILE = translatable("The prepared draft was removed while it was sent.")


class DraftGone(Exception):
    """The draft is no longer there as a draft. Somebody else may have sent it."""


class DraftToSend(Protocol[Read]):
    """One approved mail as a vendor's draft. The notes name the draft at the vendor.

    Each method may raise a ProviderError. All but `create` and `classify` may raise DraftGone.
    """

    @property
    def marker(self) -> str:
        """Return our id of the mail, by which the draft is found if its own id is unknown."""
        ...

    def take_up(self, handover: Handover) -> DraftNotes | None:
        """Return the notes on the draft of an earlier attempt, or None if a new draft is needed.

        Remove what an earlier attempt has left and cannot be used.
        """
        ...

    def create(self) -> DraftNotes:
        """Create the draft; return the notes on it, with the marker."""
        ...

    def fill(self, notes: DraftNotes) -> None:
        """Add what the vendor does not take when it creates a draft."""
        ...

    def read_back(self, notes: DraftNotes) -> Read:
        """Return the draft as the vendor holds it."""
        ...

    def compare(self, notes: DraftNotes, read: Read) -> DraftNotes:
        """Return the notes with the version that was compared; raise Refused for another mail."""
        ...

    def send(self, notes: DraftNotes, wire_started: Callable[[], None]) -> str:
        """Send the draft by its id, once; return the vendor's reference."""
        ...

    def is_still_there(self, notes: DraftNotes) -> bool:
        """Return True if the draft is there and unsent; raise ProviderError if that is not known."""
        ...

    def classify(self, gone: DraftGone) -> Receipt:
        """Return the receipt if the draft that is gone was sent, or raise OutcomeUnknown."""
        ...


def send_draft(draft: DraftToSend[Read], handover: Handover) -> Receipt:
    """Prepare the draft, send it once, and return the receipt.

    1. Keep the intent, so that a draft with a lost id is found by its marker.
    2. Create and fill the draft, or take up the draft of an earlier attempt.
    3. Read it back, compare it with the approved mail, and keep the compared version.
    4. Send it by its id. The vendor calls `wire_started` directly before.

    A draft that is gone is never created again, because it may have been sent.
    """
    try:
        notes = _prepare(draft, handover)
    except DraftGone as gone:
        handover.order = handover.prepared
        handover.start_wire()  # not by this attempt, but the mail may have gone out
        return draft.classify(gone)
    handover.order = notes
    try:
        reference = draft.send(notes, handover.start_wire)
    except DraftGone as gone:
        return draft.classify(gone)
    except NotSent as refusal:
        # The mailbox owner or a repeated request may have sent the draft: a refusal of the order
        # proves nothing as long as nobody has looked.
        if handover.on_wire and refusal.proof is None:
            try:
                is_there = draft.is_still_there(notes)
            except ProviderError:
                raise refusal from None  # without a proof
            if not is_there:
                return draft.classify(DraftGone(GONE_MEANWHILE))
            refusal.proof = Proof(kind="unsent", object=notes.draft)
        raise
    return Receipt(at=datetime.now(UTC), reference=reference)


def _prepare(draft: DraftToSend[Read], handover: Handover) -> DraftNotes:
    notes = None if handover.prepared.is_empty else draft.take_up(handover)
    if notes is None:
        notes = _create(draft, handover)
    compared = draft.compare(notes, draft.read_back(notes))
    if compared.as_json() != notes.as_json():
        handover.keep(compared)
    return compared


def _create(draft: DraftToSend[Read], handover: Handover) -> DraftNotes:
    handover.keep(DraftNotes(marker=draft.marker))
    notes = draft.create()
    handover.keep(notes)
    draft.fill(notes)
    return notes
