"""Conversion of a draft in the mailbox into a request to send it."""

from accounts.infra.problems import Problem
from accounts.models import Mailbox
from tools.mail.message.compose import Request
from tools.mail.message.draft_source import KeptParts, read_draft, read_kept
from tools.mail.parsers import run


def request_of_draft(source: bytes, mailbox: Mailbox) -> Request:
    """Return the content of the draft as a request.

    Raises Problem if it cannot be sent from here, and Unparsable.
    """
    found = run(read_draft, source, mailbox.address, mailbox.name)
    if isinstance(found, str):
        raise Problem("invalid_input", found)
    return found


def kept_of_draft(source: bytes, wanted: frozenset[str]) -> KeptParts:
    """Return these parts of the draft, by the names of KeptParts. Raises Problem, and Unparsable."""
    found = run(read_kept, source, wanted)
    if isinstance(found, str):
        raise Problem("invalid_input", found)
    return found
