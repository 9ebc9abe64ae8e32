"""Tools that write drafts.

A draft is in the mailbox, where the mailbox owner sees it; nothing is sent.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from email.message import Message as Block
from email.utils import format_datetime
from typing import Any

from accounts.access.caller import Caller
from accounts.access.keyed_calls import mark_started
from accounts.infra.problems import Problem
from accounts.infra.texts import translatable
from accounts.models import Mailbox
from approvals.audit import chain as audit
from approvals.reports.report import READ
from tools.mail.message import lenient
from tools.mail.message.compose import (
    MESSAGE_ID,
    OutgoingMessage,
    Request,
    add_date,
    chain,
    parent,
    reply_subject,
)
from tools.mail.message.content import Original
from tools.mail.message.draft_source import importance_of
from tools.mail.message.markup import answer_content, author_content
from tools.models import Draft, DraftAuthor
from tools.providers.base import NOT_A_DRAFT, MailProvider, StoredDraft
from tools.providers.errors import Busy, Refused, Unavailable
from tools.providers.failures import map_errors
from tools.reading import compact
from tools.reading.originals import answer_names, answer_recipients, as_original
from tools.reading.own_mail import provider_of
from tools.schemas import CreateDraft, DeleteDraft, DraftFields, DraftReply, ListDrafts, UpdateDraft
from tools.sending.encoding import encode
from tools.sending.prepared import refuse_prepared
from tools.sending.snapshot import kept_of_draft
from tools.sending.uploads import load_attachments


def create_draft(caller: Caller, mailbox: Mailbox, parameters: CreateDraft) -> dict[str, Any]:
    with map_errors(mailbox):
        provider = provider_of(caller, mailbox)
        original = _get_original(provider, parameters.in_reply_to)
        return _save(caller, mailbox, provider, _request(caller, mailbox, parameters, original))


def draft_reply(caller: Caller, mailbox: Mailbox, parameters: DraftReply) -> dict[str, Any]:
    """Create a draft that answers a mail; recipients, subject and threading come from the
    original.
    """
    with map_errors(mailbox):
        provider = provider_of(caller, mailbox)
        named = parameters.message_id if parameters.message_id is not None else parameters.uid
        original = _get_original(provider, named)
        assert original is not None, "the schema asks for a message"
        to, cc = answer_recipients(original, own=mailbox.address, reply_all=parameters.reply_all)
        request = Request(
            kind="reply",
            from_address=mailbox.address,
            from_name=mailbox.name,
            to=to,
            cc=cc,
            names=answer_names(original, (*to, *cc)),
            subject=reply_subject(original.subject),
            content=answer_content(author_content(parameters.body, parameters.body_type), original),
            in_reply_to=parent(original),
            references=chain(original),
        )
        draft = _save(caller, mailbox, provider, request)
    return draft if caller.may(READ) else draft | {"subject": "", "to": []}


def get_draft(
    mailbox: Mailbox, provider: MailProvider, parameters: UpdateDraft | DeleteDraft
) -> StoredDraft:
    """Return the draft that the parameters name, as it is stored now.

    Raises Refused or Problem `not_found`, and `conflict` if it is prepared for an approved mail.
    """
    stored = provider.read_draft(_draft_id(provider, parameters))
    refuse_prepared(mailbox, provider, stored)
    return stored


def replacement(
    caller: Caller,
    mailbox: Mailbox,
    provider: MailProvider,
    parameters: UpdateDraft,
    before: StoredDraft,
) -> Request:
    """Return the request for a draft that replaces `before`.

    The threading, the importance, and the copies and attachments that are not named stay. Raises
    Problem `invalid_input` if they cannot be kept.
    """
    original = _get_original(provider, parameters.in_reply_to)
    request = _request(caller, mailbox, parameters, original, before=lenient.headers(before.source))
    unnamed = {"cc", "bcc", "attachments"} - parameters.model_fields_set
    if not unnamed:
        return request
    kept = kept_of_draft(before.source)
    named = {address.lower() for address in (*request.to, *request.cc, *request.bcc)}

    def unless_named(field: str, before: tuple[str, ...], now: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(a for a in before if a.lower() not in named) if field in unnamed else now

    attachments = request.attachments
    if "attachments" in unnamed:
        # A picture that the new text no longer shows becomes an ordinary attachment.
        page = request.content.html or ""
        attachments = tuple(
            file if file.content_id in page else replace(file, content_id="")
            for file in kept.attachments
        )
    return replace(
        request,
        cc=unless_named("cc", kept.cc, request.cc),
        bcc=unless_named("bcc", kept.bcc, request.bcc),
        attachments=attachments,
    )


def may_change(caller: Caller, mailbox: Mailbox, stored: StoredDraft) -> bool:
    """Return True if this caller may change or delete the draft without a person's decision.

    A signed-in person's own click may. A program may only if it wrote the draft itself and nobody
    changed it since.
    """
    if caller.is_person:
        return True
    return Draft.objects.filter(
        mailbox=mailbox,
        provider_id=stored.id,
        sha256=stored.etag,
        author=caller.user,
        author_name=caller.name,
    ).exists()


def replace_draft(
    caller: Caller, mailbox: Mailbox, provider: MailProvider, request: Request, before: StoredDraft
) -> dict[str, Any]:
    """Replace the draft now and return the contract's `draft` object."""
    answer = _save(caller, mailbox, provider, request, replaces=before)
    audit.record(event="draft_changed", **_audit_fields(caller, mailbox, before))
    return answer


def list_drafts(caller: Caller, mailbox: Mailbox, parameters: ListDrafts) -> dict[str, Any]:
    reads = caller.may(READ)
    with map_errors(mailbox):
        page = provider_of(caller, mailbox).list_messages(
            folder="drafts",
            unread=None,
            limit=parameters.max_results,
            page_token=parameters.page_token,
        )
    result: dict[str, Any] = {
        "drafts": [
            _row(
                card.id,
                card.number,
                card.subject if reads else "",
                card.to if reads else (),
                compact.rfc3339(card.date) if card.date else "",
            )
            for card in page.cards
        ]
    }
    if page.next_token:
        result["next_page_token"] = page.next_token
    return result


def remove_draft(
    caller: Caller, mailbox: Mailbox, provider: MailProvider, stored: StoredDraft
) -> dict[str, Any]:
    """Delete the draft now."""
    with _changing():
        provider.delete_draft(stored.id)
    Draft.objects.filter(mailbox=mailbox, provider_id=stored.id).delete()
    audit.record(event="draft_deleted", **_audit_fields(caller, mailbox, stored))
    return {"deleted": True}


def _audit_fields(caller: Caller, mailbox: Mailbox, before: StoredDraft) -> dict[str, Any]:
    """Return the shared fields of both audit events; the digest names the removed content."""
    return {"mailbox": mailbox, "actor": caller.actor, "digest": before.etag[:64]}


def _draft_id(provider: MailProvider, parameters: UpdateDraft | DeleteDraft) -> str:
    if parameters.draft_id is not None:
        return parameters.draft_id
    assert parameters.uid is not None, "the schema asks for one of them"
    try:
        return provider.id_of_number(parameters.uid, folder="drafts")
    except Refused:
        raise Problem("not_found", NOT_A_DRAFT) from None


def _get_original(provider: MailProvider, named: str | int | None) -> Original | None:
    """Return the mail to answer, named by id or by its UID in the inbox."""
    if named is None:
        return None
    uid = int(named) if isinstance(named, int) or named.isdecimal() else None
    try:
        message_id = str(named) if uid is None else provider.id_of_number(uid, folder="inbox")
        return as_original(provider.read_message(message_id, body=True))
    except Refused:
        if uid is None:
            raise
        raise Problem(
            "not_found", translatable("Email with UID %(uid)s not found.", uid=uid)
        ) from None


def _request(
    caller: Caller,
    mailbox: Mailbox,
    fields: DraftFields | UpdateDraft,
    original: Original | None,
    before: Block | None = None,
) -> Request:
    in_reply_to = ""
    references: tuple[str, ...] = ()
    if original is not None:
        in_reply_to, references = parent(original), chain(original)
    elif before is not None:
        in_reply_to = str(before["In-Reply-To"] or "").strip()
        references = tuple(
            known
            for known in str(before["References"] or "").split()
            if MESSAGE_ID.fullmatch(known)
        )
        in_reply_to = in_reply_to if MESSAGE_ID.fullmatch(in_reply_to) else ""
    return Request(
        kind="reply" if in_reply_to else "send",
        from_address=mailbox.address,
        from_name=mailbox.name,
        to=tuple(fields.to),
        cc=tuple(fields.cc or ()),
        bcc=tuple(fields.bcc or ()),
        subject=reply_subject(fields.subject) if original is not None else fields.subject,
        content=author_content(fields.body, fields.body_type),
        importance=importance_of(before) if before is not None else "normal",
        attachments=load_attachments(caller, fields.attachments or []),
        in_reply_to=in_reply_to,
        references=references,
    )


def _save(
    caller: Caller,
    mailbox: Mailbox,
    provider: MailProvider,
    request: Request,
    replaces: StoredDraft | None = None,
) -> dict[str, Any]:
    message = encode(request)
    earlier = find_authors(mailbox, replaces) if replaces else set()
    keep_authors(mailbox, message.message_id, {caller.user.pk, *earlier})
    now = datetime.now(UTC).replace(microsecond=0)
    source = add_date(message.source, date=format_datetime(now), bcc=request.bcc)
    with _changing():
        stored = provider.save_draft(source, replaces=replaces.id if replaces else None)
    _follow(caller, mailbox, message, stored, replaces.id if replaces else None)
    return _row(stored.id, stored.number, request.subject, request.to, compact.rfc3339(now))


def find_authors(mailbox: Mailbox, stored: StoredDraft) -> set[int]:
    """Return the ids of the people whose words may be in a draft, also if somebody else has changed it since."""
    rows = Draft.objects.filter(mailbox=mailbox, provider_id=stored.id)
    last = dict(rows.values_list("message_id", "author"))
    names = {message_id_in(stored.source), *last}
    kept = DraftAuthor.objects.filter(mailbox=mailbox, message_id__in=names)
    return {*last.values(), *kept.values_list("person", flat=True)}


def keep_authors(mailbox: Mailbox, message_id: str, people: Iterable[int]) -> None:
    """Store whose words are in a draft; call it before the draft is saved."""
    DraftAuthor.objects.bulk_create(
        (DraftAuthor(mailbox=mailbox, message_id=message_id, person_id=each) for each in people),
        ignore_conflicts=True,
    )


def message_id_in(source: bytes) -> str:
    return str(lenient.headers(source)["Message-ID"] or "").strip()


@contextmanager
def _changing() -> Iterator[None]:
    """Say that the mailbox may have changed if no clear answer comes out of the block."""
    mark_started(True)
    try:
        yield
    except Unavailable as error:
        if isinstance(error, Busy) or error.code == "unreachable":  # no connection was made
            mark_started(False)
        raise


def _follow(
    caller: Caller,
    mailbox: Mailbox,
    message: OutgoingMessage,
    stored: StoredDraft,
    replaces: str | None,
) -> None:
    """Record the draft; a replacement keeps the row of the draft that it replaces."""
    seen = {
        "provider_id": stored.id,
        "message_id": message.message_id,
        "sha256": stored.etag,
        "author": caller.user,
        "author_name": caller.name,
        "surface": caller.surface,
    }
    Draft.objects.update_or_create(
        mailbox=mailbox, provider_id=replaces or stored.id, defaults=seen
    )


def _row(
    id_: str, number: int | None, subject: str, to: tuple[str, ...], date: str
) -> dict[str, Any]:
    """Return the contract's `draft` object."""
    row: dict[str, Any] = {"id": id_}
    if number is not None:
        row["uid"] = number
    return row | {"subject": subject, "to": list(to), "date": date}
