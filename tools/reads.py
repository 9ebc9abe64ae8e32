"""Tools that read: a provider call and a compact result."""

from typing import Any

from accounts import access
from accounts.caller import Caller
from accounts.models import Mailbox
from tools import compact
from tools.failures import told_as_problems
from tools.html import cleaned, text_of
from tools.providers import provider_for
from tools.schemas import ListEmails, ListMailboxes, ReadEmail


def list_mailboxes(caller: Caller, parameters: ListMailboxes) -> dict[str, Any]:
    return {"mailboxes": [described(mailbox) for mailbox in access.mailboxes(caller)]}


def described(mailbox: Mailbox) -> dict[str, Any]:
    """The contract's mailbox object."""
    return {
        "id": str(mailbox.id),
        "address": mailbox.address,
        "provider": mailbox.provider,
        "status": mailbox.status,
        "scopes": mailbox.scopes,
    }


def list_emails(caller: Caller, mailbox: Mailbox, parameters: ListEmails) -> dict[str, Any]:
    with told_as_problems(mailbox):
        page = provider_for(mailbox).list_messages(
            folder=parameters.folder,
            unread=parameters.unread,
            limit=parameters.max_results,
            page_token=parameters.page_token,
        )
    result: dict[str, Any] = {"emails": [compact.card(card) for card in page.cards]}
    if page.next_token:
        result["next_page_token"] = page.next_token
    return result


def read_email(caller: Caller, mailbox: Mailbox, parameters: ReadEmail) -> dict[str, Any]:
    with told_as_problems(mailbox):
        message = provider_for(mailbox).read_message(parameters.message_id, body=parameters.format != "metadata")
    match parameters.format:
        case "metadata":
            body = ""
        case "html":
            body = cleaned(message.html) if message.html is not None else message.text or ""
        case "full":
            body = message.text if message.text is not None else text_of(cleaned(message.html or ""))
    return compact.message(message, body=body, offset=parameters.offset, max_chars=parameters.max_chars)
