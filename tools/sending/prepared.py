"""Drafts that mailhub prepared for an approved mail: no tool changes, deletes or proposes them."""

from accounts.infra.problems import Problem
from accounts.infra.texts import translatable
from accounts.models import Mailbox
from approvals.gate.preparation import notes_of
from tools.providers.base import MailProvider, StoredDraft
from tools.providers.notes import DraftNotes

BELONGS_TO_A_MAIL = translatable(
    "This draft belongs to an approved mail that mailhub is sending or may have sent. Wait until the action ends, or"
    " withdraw it."
)


def refuse_prepared(mailbox: Mailbox, provider: MailProvider, stored: StoredDraft) -> None:
    """Raise Problem `conflict` if one of mailhub's own sends uses this draft.

    The notes are read after the draft, because the intent to create a draft is committed before the
    provider is called.
    """
    if any(
        provider.is_prepared(DraftNotes.from_json(notes), stored) for notes in notes_of(mailbox)
    ):
        raise Problem("conflict", BELONGS_TO_A_MAIL)
