"""Tools that read: a provider call and a compact result."""

import base64
import time

from accounts.access import roles
from accounts.access.caller import Caller
from accounts.infra.problems import Problem
from accounts.infra.texts import translatable
from accounts.models import Mailbox
from approvals.gate.pauses.switch import find_paused
from tools import answers
from tools.answers import (
    AttachmentList,
    Conversation,
    Download,
    Email,
    EmailPage,
    FolderList,
    MailboxList,
    MailboxRow,
    SearchPage,
)
from tools.mail.message.compose import MAX_TOTAL_BYTES
from tools.mail.message.extract import CannotExtract, text_from
from tools.mail.message.markup import page_for_reader
from tools.mail.message.page_text import Readable
from tools.mail.message.whole_text import read_whole, whole_page
from tools.providers.base import AttachmentInfo, Folder, Message, SearchQuery
from tools.providers.failures import map_errors
from tools.reading import compact, links
from tools.reading.own_mail import provider_of
from tools.schemas import (
    DownloadAttachment,
    ListAttachments,
    ListEmails,
    ListFolders,
    ListMailboxes,
    ReadEmail,
    ReadThread,
    SearchEmails,
)

BASE64_BYTES = 64 * 1024
TEXT_CHARS = 20_000
THREAD_MESSAGES = 50
THREAD_SECONDS = 5.0  # for all its HTML; a message that has begun may take one job's limit more


def list_mailboxes(caller: Caller, parameters: ListMailboxes) -> MailboxList:
    found = list(roles.mailboxes(caller))
    paused = find_paused(found)
    return {"mailboxes": [describe_mailbox(each, paused=each.pk in paused) for each in found]}


def describe_mailbox(mailbox: Mailbox, *, paused: bool) -> MailboxRow:
    """Return the contract's mailbox object."""
    return {
        "id": str(mailbox.id),
        "address": mailbox.address,
        "provider": mailbox.provider,
        "status": Mailbox.Status.PAUSED if paused else mailbox.status,
        "scopes": mailbox.scopes,
    }


def list_folders(caller: Caller, mailbox: Mailbox, parameters: ListFolders) -> FolderList:
    with map_errors(mailbox):
        folders = provider_of(mailbox).list_folders()
    return {"folders": [_folder(each) for each in folders]}


def _folder(folder: Folder) -> answers.Folder:
    row: answers.Folder = {"id": folder.id, "name": folder.name}
    if folder.role:
        row["role"] = folder.role
    if folder.unread is not None:
        row["unread"] = folder.unread
    if folder.total is not None:
        row["total"] = folder.total
    if folder.more_inside:
        row["more_inside"] = True
    return row


def list_emails(caller: Caller, mailbox: Mailbox, parameters: ListEmails) -> EmailPage:
    with map_errors(mailbox):
        page = provider_of(mailbox).list_messages(
            folder=parameters.folder,
            unread=parameters.unread,
            limit=parameters.max_results,
            page_token=parameters.page_token,
        )
    result: EmailPage = {"emails": [compact.card(each) for each in page.cards]}
    if page.next_token:
        result["next_page_token"] = page.next_token
    if page.hidden:
        result["hidden"] = page.hidden
    return result


def search_emails(caller: Caller, mailbox: Mailbox, parameters: SearchEmails) -> SearchPage:
    query = SearchQuery(
        raw=parameters.query or "",
        from_=parameters.from_ or "",
        to=parameters.to or "",
        subject=parameters.subject or "",
        text=parameters.text or "",
        since=parameters.since,
        before=parameters.before,
        newer_than_days=parameters.newer_than_days,
        has_attachments=parameters.has_attachments,
        unread=parameters.unread,
        folder=parameters.folder or "",
        label_ids=tuple(parameters.label_ids or ()),
    )
    with map_errors(mailbox):
        page = provider_of(mailbox).search(
            query, limit=parameters.max_results, page_token=parameters.page_token
        )
    result: SearchPage = {"emails": [compact.card(each) for each in page.cards]}
    if page.next_token:
        result["next_page_token"] = page.next_token
    if not page.cards and not parameters.page_token:
        result["hint"] = (
            "Nothing found. Try fewer words, another folder (list_folders), or a longer time."
        )
    return result


def read_email(caller: Caller, mailbox: Mailbox, parameters: ReadEmail) -> Email:
    with map_errors(mailbox):
        message = provider_of(mailbox).read_message(
            parameters.message_id, body=parameters.format != "metadata"
        )
    return compact.message(
        message,
        _body(message, parameters.format, quoted=parameters.quoted),
        offset=parameters.offset,
        max_chars=parameters.max_chars,
    )


def read_thread(caller: Caller, mailbox: Mailbox, parameters: ReadThread) -> Conversation:
    named = parameters.message_id or parameters.thread_id or ""
    with map_errors(mailbox):
        thread = provider_of(mailbox).read_thread(named, limit=THREAD_MESSAGES)
    deadline = time.monotonic() + THREAD_SECONDS
    # Newest first: if the time runs out, the oldest messages become bare text.
    found = [
        (
            message,
            read_whole(message, in_time=time.monotonic() < deadline, quoted=parameters.quoted),
        )
        for message in reversed(thread.messages)
    ]
    return compact.thread(
        found[::-1], named=named, max_chars=parameters.max_chars, is_whole=thread.is_whole
    )


def list_attachments(
    caller: Caller, mailbox: Mailbox, parameters: ListAttachments
) -> AttachmentList:
    with map_errors(mailbox):
        # With its content, so that names, sizes and ids are those of read_email.
        message = provider_of(mailbox).read_message(parameters.message_id, body=True)
    return {"attachments": [compact.attachment(info) for info in message.attachments]}


def download_attachment(
    caller: Caller, mailbox: Mailbox, parameters: DownloadAttachment
) -> Download:
    """Return the text of an attachment, a link to it, or the bytes of a small one."""
    info, content = fetch_attachment(mailbox, parameters.message_id, parameters.attachment_id)
    result: Download = {"name": info.name, "type": info.type, "size": info.size}
    match parameters.as_:
        case "link":
            url, ends = links.issue(
                caller,
                mailbox,
                message_id=parameters.message_id,
                attachment_id=parameters.attachment_id,
            )
            result |= {"url": url, "expires_at": compact.rfc3339(ends)}
        case "base64":
            if len(content) > BASE64_BYTES:
                raise Problem(
                    "too_large",
                    translatable(
                        "base64 is for at most %(base64_bytes)s bytes. Ask for it as link.",
                        base64_bytes=f"{BASE64_BYTES:,}",
                    ),
                )
            result["content_base64"] = base64.b64encode(content).decode()
        case "text":
            text = _text(content, info.type, info.name)
            result["text"] = text[:TEXT_CHARS]
            if len(text) > TEXT_CHARS:
                result["truncated"] = {"total_chars": len(text)}
    return result


def fetch_attachment(
    mailbox: Mailbox, message_id: str, attachment_id: str
) -> tuple[AttachmentInfo, bytes]:
    """Return an attachment with its bytes; raises Problem."""
    with map_errors(mailbox):
        return provider_of(mailbox).fetch_attachment(
            message_id, attachment_id, limit=MAX_TOTAL_BYTES
        )


def _text(content: bytes, media_type: str, name: str) -> str:
    try:
        return text_from(content, media_type=media_type, name=name)
    except CannotExtract as error:
        raise Problem("invalid_input", str(error)) from None


def _body(message: Message, form: str, *, quoted: bool) -> Readable:
    match form:
        case "metadata":
            return Readable(text="")
        case "html" if message.html is not None:
            page = whole_page(message.html, message.inner)
            return Readable(text=page_for_reader(page, with_hidden=True))
        case "html" if not message.inner:
            return Readable(text=message.text or "")
    return read_whole(message, quoted=quoted)
