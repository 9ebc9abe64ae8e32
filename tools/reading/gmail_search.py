"""The tools for Gmail only, in Gmail's own language; the common tools use the same provider."""

from typing import cast

from accounts.access.caller import Caller
from accounts.infra.problems import Problem
from accounts.models import Mailbox
from tools.answers import GmailEmail, GmailPage
from tools.mail.message.markup import page_for_reader
from tools.mail.message.whole_text import read_whole, whole_page
from tools.providers.failures import map_errors
from tools.reading import compact
from tools.reading.own_mail import WithoutOwnMail, provider_of
from tools.schemas import GmailGetMessage, GmailSearchMessages

HINT = "Nothing found. Try fewer or other words, a longer time, or other labels (list_folders)."


def gmail_search_messages(
    caller: Caller, mailbox: Mailbox, parameters: GmailSearchMessages
) -> GmailPage:
    """Search; the first ten rows are filled in, the others have only ids."""
    with map_errors(mailbox):
        page = _gmail(mailbox).find(
            parameters.query,
            limit=parameters.max_results,
            newer_than_days=parameters.newer_than_days,
            label_ids=tuple(parameters.label_ids or ()),
            page_token=parameters.page_token,
        )
    result: GmailPage = {"messages": [compact.gmail_row(row) for row in page.rows]}
    if page.next_token:
        result["next_page_token"] = page.next_token
    if not page.rows and not parameters.page_token:
        result["hint"] = HINT
    return result


def gmail_get_message(caller: Caller, mailbox: Mailbox, parameters: GmailGetMessage) -> GmailEmail:
    """Return headers and a piece of the body, or headers and snippet."""
    with map_errors(mailbox):
        found = _gmail(mailbox).get(parameters.message_id, fmt=parameters.fmt)
    html = found.message.html
    return compact.gmail_message(
        found,
        read_whole(found.message, quoted=parameters.quoted),
        page_for_reader(whole_page(html, found.message.inner), with_hidden=False) if html else None,
        offset=parameters.offset,
        max_chars=parameters.max_chars,
    )


def _gmail(mailbox: Mailbox) -> WithoutOwnMail:
    provider = cast(WithoutOwnMail, provider_of(mailbox))
    if not provider.is_gmail:
        raise Problem(
            "invalid_input",
            "This tool is for Gmail mailboxes. Use search_emails and read_email here.",
        )
    return provider
