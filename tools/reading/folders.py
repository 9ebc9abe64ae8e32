"""The folders of a mailbox on an IMAP server that mailhub writes to, and their choice by a manager."""

from copy import copy
from dataclasses import dataclass

from django.db import transaction

from accounts.access.provider_calls import limit_waiting
from accounts.audit_hook import record_event
from accounts.infra.problems import not_found
from accounts.infra.transactions import retry_if_rolled_back
from accounts.models import Mailbox, User
from tools.providers import provider_for
from tools.providers.base import Folder
from tools.providers.failures import map_errors

LONGEST = 500  # characters that the database keeps


@dataclass(frozen=True, kw_only=True)
class Folders:
    """The folders to choose from, and the name of the one that each role has without a choice."""

    listed: tuple[Folder, ...]
    by_role: dict[str, str]


def read_folders(mailbox: Mailbox, person: User) -> Folders:
    """Ask the server; raise Problem if it does not answer, or if there is nothing to choose."""
    if mailbox.provider != Mailbox.Provider.IMAP:
        raise not_found("Only mailboxes on an IMAP server have folders to choose.")
    unchosen = copy(mailbox)
    unchosen.sent_folder = unchosen.drafts_folder = ""
    with limit_waiting(person.pk, mailbox.pk), map_errors(mailbox):
        found = provider_for(unchosen).list_folders()
    return Folders(
        listed=tuple(
            folder for folder in found if folder.role != "inbox" and len(folder.id) <= LONGEST
        ),
        by_role={folder.role: folder.name for folder in found if folder.role},
    )


@retry_if_rolled_back
@transaction.atomic
def choose_folders(
    mailbox: Mailbox, *, person: User, sent_folder: str, drafts_folder: str, sent_copies: str
) -> None:
    """Store the choice; forget what was seen if the provider's own copies are a new question."""
    row = Mailbox.objects.select_for_update(no_key=True).get(pk=mailbox.pk)
    before = (row.sent_folder, row.drafts_folder, row.sent_copies)
    if before == (sent_folder, drafts_folder, sent_copies):
        return
    if row.sent_copies != sent_copies or row.sent_folder != sent_folder:
        row.provider_files_copies = None
    row.sent_folder, row.drafts_folder, row.sent_copies = sent_folder, drafts_folder, sent_copies
    row.save(update_fields=["sent_folder", "drafts_folder", "sent_copies", "provider_files_copies"])
    record_event("folders_chosen", person=person, mailbox=row)
