"""Tools that write drafts.

A draft is in the mailbox, where the mailbox owner sees it; nothing is sent.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any, cast

from accounts.access.caller import Caller
from accounts.access.keyed_calls import mark_started
from accounts.infra.foreign_text import parse_number
from accounts.infra.idn import comparable
from accounts.infra.problems import Problem
from accounts.infra.texts import translatable
from accounts.models import Mailbox
from approvals.audit import chain as audit
from approvals.reports.report import READ
from tools.answers import Deleted, DraftList, DraftRow
from tools.mail.message import lenient
from tools.mail.message.compose import (
    OutgoingMessage,
    Request,
    add_date,
    chain,
    parent,
    reply_subject,
)
from tools.mail.message.content import Content, Original, as_html
from tools.mail.message.draft_source import KeptParts, importance_of, thread_of
from tools.mail.message.markup import answer_content, author_content
from tools.mail.text.addresses import bare_address, split_named
from tools.models import Draft, DraftAuthor
from tools.providers.base import NOT_A_DRAFT, MailProvider, StoredDraft
from tools.providers.errors import Busy, Refused, Unavailable
from tools.providers.failures import map_errors
from tools.reading import compact
from tools.reading.originals import answer_names, answer_recipients, as_original
from tools.reading.own_mail import provider_of
from tools.schemas import CreateDraft, DeleteDraft, DraftReply, ListDrafts, UpdateDraft
from tools.sending.prepared import refuse_prepared
from tools.sending.requests import Understood, encode, kept_of_draft, understand
from tools.sending.uploads import load_attachments

SENDERS = 3  # of a draft that are named


def create_draft(caller: Caller, mailbox: Mailbox, parameters: CreateDraft) -> DraftRow:
    with map_errors(mailbox):
        provider = provider_of(mailbox)
        original = _get_original(provider, parameters.in_reply_to)
        people = understand(to=parameters.to, cc=parameters.cc, bcc=parameters.bcc)
        request = Request(
            kind="reply" if original is not None and parent(original) else "send",
            **people.envelope(mailbox),
            subject=parameters.subject if original is None else reply_subject(parameters.subject),
            content=author_content(parameters.body, parameters.body_type),
            importance=parameters.importance,
            attachments=load_attachments(caller, mailbox, parameters.attachments),
            **_thread(original),
        )
        return _answer(_save(caller, mailbox, provider, request), people)


def draft_reply(caller: Caller, mailbox: Mailbox, parameters: DraftReply) -> DraftRow:
    """Create a draft that answers a mail; recipients, subject and threading come from the
    original.
    """
    with map_errors(mailbox):
        provider = provider_of(mailbox)
        named = parameters.message_id if parameters.message_id is not None else parameters.uid
        original = _get_original(provider, named)
        assert original is not None, "the schema asks for a message"
        to, cc = answer_recipients(original, own=mailbox.address, reply_all=parameters.reply_all)
        people = understand(
            to=to,
            cc=(*cc, *parameters.cc),
            bcc=parameters.bcc,
            names=answer_names(original, (*to, *cc)),
        )
        request = Request(
            kind="reply",
            **people.envelope(mailbox),
            subject=reply_subject(original.subject),
            content=answer_content(author_content(parameters.body, parameters.body_type), original),
            attachments=load_attachments(caller, mailbox, parameters.attachments),
            **_thread(original),
        )
        draft = _save(caller, mailbox, provider, request)
    return _answer(draft, people, shows_mail=caller.may(READ))


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
) -> tuple[Request, Understood]:
    """Return the request for a draft that replaces `before`, and its recipients.

    What is not named stays, with the threading and the importance. Raises Problem `invalid_input`
    if it cannot be kept.
    """
    original = _get_original(provider, parameters.in_reply_to)
    head = lenient.headers(before.source)
    named = {name for name in parameters.model_fields_set if name in ("cc", "bcc", "attachments")}
    named |= {name for name in ("to", "subject") if getattr(parameters, name) is not None}
    named |= {"content"} if parameters.body is not None else set()
    wanted = frozenset({"to", "cc", "bcc", "subject", "content", "attachments"}) - named
    kept = kept_of_draft(before.source, wanted)
    people = _people(parameters, kept)
    content = kept.content if parameters.body is None else _new_content(parameters, kept)
    if "attachments" in named:
        attachments = load_attachments(caller, mailbox, parameters.attachments or [])
    else:
        # A picture that the new text no longer shows becomes an ordinary attachment.
        attachments = tuple(
            file if file.content_id in (content.html or "") else replace(file, content_id="")
            for file in kept.attachments
        )
    subject = kept.subject if parameters.subject is None else parameters.subject
    thread = _thread(original) if original is not None else thread_of(head)
    request = Request(
        kind="reply" if thread["in_reply_to"] else "send",
        **people.envelope(mailbox),
        subject=reply_subject(subject) if original is not None else subject,
        content=content,
        importance=importance_of(head),
        attachments=attachments,
        **thread,
    )
    return request, people


def find_other_senders(source: bytes, mailbox: Mailbox) -> str:
    """Return who wrote a draft, by its From, unless only the mailbox did."""
    named = []
    for _, address in lenient.addresses(lenient.headers(source), "From")[:SENDERS]:
        with suppress(ValueError):  # it is not finished
            named.append(bare_address(address))
    own = comparable(mailbox.address)
    return ", ".join(named) if any(comparable(each) != own for each in named) else ""


def _people(parameters: UpdateDraft, kept: KeptParts) -> Understood:
    lists = {"to": parameters.to, "cc": parameters.cc, "bcc": parameters.bcc}
    given = {
        name: [split_named(each)[1].lower() for each in who or ()] for name, who in lists.items()
    }
    moved = {address for addresses in given.values() for address in addresses}

    def now(name: str, before: tuple[str, ...]) -> Sequence[str]:
        who = lists[name]
        if who is not None or (name in parameters.model_fields_set and name != "to"):
            return who or ()
        return [address for address in before if address.lower() not in moved]

    return understand(
        to=now("to", kept.to), cc=now("cc", kept.cc), bcc=now("bcc", kept.bcc), names=kept.names
    )


def _new_content(parameters: UpdateDraft, kept: KeptParts) -> Content:
    """Return the new text. Without a type it stays a page if the draft is one."""
    assert parameters.body is not None
    if parameters.body_type is None and kept.is_page:
        return author_content(as_html(parameters.body), "html")
    return author_content(parameters.body, parameters.body_type or "text")


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
    caller: Caller,
    mailbox: Mailbox,
    provider: MailProvider,
    request: Request,
    before: StoredDraft,
    people: Understood,
) -> DraftRow:
    """Replace the draft now and return the contract's `draft` object."""
    answer = _save(caller, mailbox, provider, request, replaces=before)
    audit.record(event="draft_changed", **_audit_fields(caller, mailbox, before))
    return _answer(answer, people, shows_mail=caller.may(READ))


def list_drafts(caller: Caller, mailbox: Mailbox, parameters: ListDrafts) -> DraftList:
    reads = caller.may(READ)
    with map_errors(mailbox):
        page = provider_of(mailbox).list_messages(
            folder="drafts",
            unread=None,
            limit=parameters.max_results,
            page_token=parameters.page_token,
        )
    result: DraftList = {
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
) -> Deleted:
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
        raise Problem("invalid_input", NOT_A_DRAFT) from None


def _get_original(provider: MailProvider, named: str | int | None) -> Original | None:
    if named is None:
        return None
    uid = named if isinstance(named, int) else parse_number(named)
    try:
        message_id = str(named) if uid is None else provider.id_of_number(uid, folder="inbox")
        return as_original(provider.read_message(message_id, body=True))
    except Refused:
        if uid is None:
            raise
        raise Problem(
            "not_found", translatable("Email with UID %(uid)s not found.", uid=uid)
        ) from None


def _thread(original: Original | None) -> dict[str, Any]:
    """Return the members of a request that put it into the thread of the original."""
    if original is None:
        return {"in_reply_to": "", "references": ()}
    return {"in_reply_to": parent(original), "references": chain(original)}


def _answer(draft: DraftRow, people: Understood, *, shows_mail: bool = True) -> DraftRow:
    """Return the answer with its notes; without what may be of a mail or draft, unless it is shown."""
    if not shows_mail:
        return draft | {"subject": "", "to": []}
    if people.notes:
        draft["notes"] = list(people.notes)
    return draft


def _save(
    caller: Caller,
    mailbox: Mailbox,
    provider: MailProvider,
    request: Request,
    replaces: StoredDraft | None = None,
) -> DraftRow:
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


def _row(id_: str, number: int | None, subject: str, to: tuple[str, ...], date: str) -> DraftRow:
    rest = {"subject": subject, "to": list(to), "date": date}
    return cast(DraftRow, {"id": id_} | ({} if number is None else {"uid": number}) | rest)
