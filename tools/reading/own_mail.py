"""A mailbox as programs and pages see it: without the mail of mailhub itself.

Own mail holds codes and links that sign a person in, and only a person approves. A program that
could read them could ask for a code in the name of the mailbox owner and approve its own proposals.
So could another member of the mailbox, and somebody with the cookie of its owner.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

from accounts.infra.credentials import CannotDecrypt, decrypt_text, encrypt_text
from accounts.infra.own_sender import own_sender
from accounts.infra.problems import Problem
from accounts.infra.texts import translatable
from accounts.models import Mailbox
from accounts.people import own_mail
from tools.mail.message import lenient
from tools.providers import handles, provider_for
from tools.providers.base import (
    AttachmentInfo,
    Card,
    MailProvider,
    Message,
    Page,
    SearchQuery,
    StoredDraft,
    Thread,
)
from tools.providers.errors import Refused

if TYPE_CHECKING:
    from tools.providers.gmail import GmailProvider
    from tools.providers.gmail.reading import Found, FoundPage, GmailMessage

Ask = Callable[[int, str | None], Page]
IsOwn = Callable[[Any], bool]

# The most pages that are read to replace hidden cards. Somebody who fills them with own mail learns
# from an empty page whether one more matches, so they take longer than a code lasts.
MOST_PAGES = 100
# A token of a search has the provider's token, a LONG one by its handle, or NOWHERE.
PLACE_LENGTH, LONG, NOWHERE = 40, "=", "nowhere"
URL_SAFE, NOT_URL_SAFE = str.maketrans("+/", "-_"), str.maketrans("-_", "+/")
REFUSED = translatable(
    "This mail is from mailhub itself and may hold a code or link for a person. It cannot be read or used here."
)

LEFT_OUT = "A mail of mailhub itself inside this mail was left out."


def provider_of(mailbox: Mailbox) -> MailProvider:
    """Return the provider of a mailbox; it hides and refuses mailhub's own mail."""
    return cast(MailProvider, WithoutOwnMail(provider_for(mailbox), mailbox.pk))


# Calls that read no mail.
UNCHANGED = frozenset({"delete_draft", "id_of_number", "is_prepared", "list_folders", "save_draft"})


class WithoutOwnMail:
    """A provider without own mail. It has the methods below and the UNCHANGED ones, and no other."""

    def __init__(self, provider: MailProvider, mailbox_id: UUID) -> None:
        self._provider = provider
        self._mailbox_id = mailbox_id
        # Ids of checked messages: a forward checks once for all its files.
        self._allowed: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        if name not in UNCHANGED:
            raise AttributeError(f"Nobody can use {name}. Hide own mail in it, then name it here.")
        return getattr(self._provider, name)

    @property
    def is_gmail(self) -> bool:
        """Return True if the provider has the tools for Gmail only."""
        from tools.providers.gmail import GmailProvider  # brings its HTTP library

        return isinstance(self._provider, GmailProvider)

    def list_messages(
        self, *, folder: str, unread: bool | None, limit: int, page_token: str | None
    ) -> Page:
        def ask(count: int, token: str | None) -> Page:
            return self._provider.list_messages(
                folder=folder, unread=unread, limit=count, page_token=token
            )

        return self._page(ask, self._is_own_card, limit, page_token)

    def search(self, query: SearchQuery, *, limit: int, page_token: str | None) -> Page:
        """Search without a trace of matching own mail, because its words could be guessed from the
        answer.
        """
        query = replace(query, without_header=own_mail.HEADER, not_from=self._hidden_sender)

        def ask(count: int, token: str | None) -> Page:
            return self._provider.search(query, limit=count, page_token=token)

        return self._search(ask, self._is_own_card, limit, page_token, asked=repr(query))

    def find(
        self, query: str, *, limit: int, page_token: str | None = None, **filters: Any
    ) -> "FoundPage":
        """Search with Gmail's own search and the unchanged query, without a trace as `search`."""
        gmail = cast("GmailProvider", self._provider).reader

        def ask(count: int, token: str | None) -> Page:
            found = gmail.find(query, limit=count, page_token=token, **filters)
            return Page(cards=cast(Any, found.rows), next_token=found.next_token)

        asked = repr((query, filters))
        page = self._search(ask, self._is_own_row, limit, page_token, asked=asked)
        found = gmail.page_of(cast(Any, page.cards), page.next_token)
        shown = (row for row in found.rows if not (row.is_read and self._is_own_row(row)))
        return replace(found, rows=tuple(shown))

    def get(self, message_id: str, **form: Any) -> "GmailMessage":
        found = cast("GmailProvider", self._provider).reader.get(message_id, **form)
        self._check(found.message)
        return replace(found, message=self._without_own(found.message))

    def read_message(self, message_id: str, *, body: bool) -> Message:
        message = self._provider.read_message(message_id, body=body)
        self._check(message)
        self._allowed.add(message_id)
        return self._without_own(message)

    def read_thread(
        self, message_id: str, *, limit: int, body: bool = True, answers_to: Sequence[str] = ()
    ) -> Thread:
        """Return the conversation without own mail.

        If own mail names it, or it contains nothing else, raise Problem `forbidden`.
        """
        thread = self._provider.read_thread(
            message_id, limit=limit, body=body, answers_to=answers_to
        )
        left_out = [each.id for each in thread.messages if self._is_own(each)]
        shown = tuple(
            self._without_own(each) for each in thread.messages if each.id not in left_out
        )
        if message_id in left_out or (left_out and not shown):
            raise Problem("forbidden", REFUSED)
        return replace(thread, messages=shown)

    def fetch_attachment(
        self, message_id: str, attachment_id: str, *, limit: int
    ) -> tuple[AttachmentInfo, bytes]:
        """Return the attachment and its decoded bytes.

        A mail inside a mail is judged like a separate mail, because a returned mail holds the
        original.
        """
        if message_id not in self._allowed:
            self.read_message(message_id, body=False)
        info, content = self._provider.fetch_attachment(message_id, attachment_id, limit=limit)
        if info.type.startswith(("message/", "text/rfc822-headers")) and self._is_own_source(
            content
        ):
            raise Problem("forbidden", REFUSED)
        return info, content

    def read_draft(self, draft_id: str) -> StoredDraft:
        stored = self._provider.read_draft(draft_id)
        if self._is_own_source(stored.source):
            raise Problem("forbidden", REFUSED)
        return stored

    def _search(
        self, ask: Ask, is_own: IsOwn, limit: int, token: str | None, *, asked: str
    ) -> Page:
        """Return a page as it would be if there was no own mail.

        A full page has a token even if nothing follows, because what follows may be own mail only. No
        token shows where it leads: it is sealed, and good only for what was `asked`.
        """
        place = self._open_token(token, asked) if token else None
        if place == NOWHERE:
            return Page(cards=(), next_token=None)
        page = self._page(ask, is_own, limit, place)
        if page.is_exact or (page.next_token is None and len(page.cards) < limit):
            return page
        return replace(page, next_token=self._seal_token(page.next_token or NOWHERE, asked))

    def _seal_token(self, place: str, asked: str) -> str:
        """Return a token of one length for every place, at the provider or NOWHERE."""
        if len(place) > PLACE_LENGTH:
            place = LONG + handles.shorten(self._mailbox_id, [place])[place]
        sealed = encrypt_text(f"{place:{PLACE_LENGTH}}", bound_to=self._bound_to(asked))
        return sealed.translate(URL_SAFE).rstrip("=")

    def _open_token(self, token: str, asked: str) -> str:
        """Return the place behind a token; other tokens stay as they are, for the provider to judge."""
        sealed = token.translate(NOT_URL_SAFE) + "=" * (-len(token) % 4)
        try:
            place = decrypt_text(sealed, bound_to=self._bound_to(asked)).strip()
        except (CannotDecrypt, ValueError):
            return token
        name = handles.find_name(self._mailbox_id, place[1:]) if place.startswith(LONG) else place
        return name or token

    def _bound_to(self, asked: str) -> str:
        return f"tools:search_token:{self._mailbox_id}:{asked}"

    def _page(self, ask: Ask, is_own: IsOwn, limit: int, token: str | None) -> Page:
        """Return a page of `limit` cards; later cards fill the places of own mail."""
        cards: list[Card] = []
        hidden = 0
        for _ in range(MOST_PAGES):
            page = ask(limit - len(cards), token)
            shown = [card for card in page.cards if not is_own(card)]
            cards += shown
            hidden += len(page.cards) - len(shown)
            token = page.next_token
            if token is None or len(cards) >= limit:
                break
            if page.cards and len(shown) == len(page.cards):
                break  # the provider gives short pages
        return Page(cards=tuple(cards), next_token=token, hidden=hidden, is_exact=page.is_exact)

    def _check(self, message: Message) -> None:
        if self._is_own(message):
            raise Problem("forbidden", REFUSED)

    def _is_own(self, message: Message) -> bool:
        return own_mail.is_mark(message.own_mark) or self._is_hidden_sender(message.from_address)

    def _without_own(self, message: Message) -> Message:
        """Return the message without the own mail inside it, such as a returned one."""
        inner = tuple(
            each
            for each in message.inner
            if not (own_mail.is_mark(each.own_mark) or self._is_hidden_sender(each.from_address))
        )
        if len(inner) == len(message.inner):
            return message
        return replace(message, inner=inner, notes=(*message.notes, LEFT_OUT))

    def _is_own_card(self, card: Card) -> bool:
        if own_mail.is_mark(card.own_mark or "") or self._is_hidden_sender(card.from_address):
            return True
        # The list shows no headers, and ordinary mail comes from this address too, so the message
        # is read.
        doubtful = (
            card.own_mark is None and card.from_address.lower() in own_mail.possible_senders()
        )
        return doubtful and self._is_own_message(card.id)

    def _is_own_message(self, message_id: str) -> bool:
        try:
            return self._is_own(self._provider.read_message(message_id, body=False))
        except Refused:
            return True  # it was removed in the meantime

    def _is_own_row(self, row: "Found") -> bool:
        if not row.is_read:
            return row.id in self._may_be_own and self._is_own_message(row.id)
        return own_mail.is_mark(row.own_mark) or self._is_hidden_sender(row.from_address or "")

    @cached_property
    def _may_be_own(self) -> frozenset[str]:
        """Return the ids of the newest mails at Gmail from senders of own mail, ordinary ones too."""
        senders = " ".join(f"from:{sender}" for sender in sorted(own_mail.possible_senders()))
        gmail = cast("GmailProvider", self._provider).reader
        return gmail.find_newest_ids(f"in:anywhere {{{senders}}}")

    def _is_own_source(self, source: bytes) -> bool:
        block = lenient.headers(source)
        return own_mail.is_mark(lenient.own_mark(block)) or self._is_hidden_sender(
            lenient.sender(block)[1]
        )

    def _is_hidden_sender(self, address: str) -> bool:
        return bool(address) and address.lower() == own_sender() and bool(self._hidden_sender)

    @cached_property
    def _hidden_sender(self) -> str:
        """Return the sender address of own mail; empty if a connected mailbox uses it for ordinary
        mail too.
        """
        return "" if own_mail.sender_is_mailbox() else own_sender()
