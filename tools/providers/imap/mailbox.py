"""A mailbox on an IMAP server: sessions, folders by role, and finding messages in them."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import structlog
from django.conf import settings
from imapclient import IMAPClient
from imapclient.response_parser import parse_message_list

from accounts.connect.imap import ConnectError, ImapAccess, LoginRefused, conversation, open_imap
from accounts.infra.database import give_back_connection
from accounts.infra.texts import translatable
from tools.mail.message import lenient
from tools.providers.base import role_of
from tools.providers.errors import NotAuthorized, NotFound, Refused, Unavailable
from tools.providers.imap import message_ids
from tools.providers.imap.folders import (
    CREATED,
    HOLDS_NOTHING,
    ListedFolder,
    create_folder,
    list_folders,
)
from tools.providers.imap.message_ids import Place
from tools.providers.imap.search import Criterion, Text, arguments
from tools.providers.imap.sessions import POOL, Session

log = structlog.get_logger(__name__)

FIRST_WINDOW = 500
SLOWEST_UPLOAD = 100_000  # bytes a second

# The Message-IDs that are safe in a SEARCH. imapclient and imaplib put any argument on the wire
# unchanged: a foreign Message-ID with CR LF would be a second command. They add no quotes either,
# so it must be an IMAP atom: without % * ( ) { } and the two characters that quote.
SAFE_MESSAGE_ID = re.compile(r"<[!#$&'+-\[\]-z|~]{1,250}@[!#$&'+-\[\]-z|~]+>")
NAMING = ("Message-ID", "In-Reply-To", "References")
ID_HEADERS = ("Message-ID", *lenient.ORIGINAL_ID_HEADERS)
COMPARED = 20  # of the newest that were found: a server may answer with the whole folder
IDS_TOGETHER = 10  # in one search: some servers take lines of 8,000 bytes only
UNSAFE_ARGUMENT = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")


# RFC 5530: codes of a temporary refusal.
FOR_NOW = re.compile(r"\[(UNAVAILABLE|INUSE|SERVERBUG|LIMIT)\b", re.IGNORECASE)
# The server does not understand the search; other refusals are about the server's own state.
NOT_SEARCHED = re.compile(r"\bBAD\b|\[BADCHARSET\b", re.IGNORECASE)
# The library, and our code, fail with these over an answer of another form.
ODD_ANSWER = (
    *(AttributeError, IndexError, KeyError, RecursionError),
    *(TypeError, UnicodeDecodeError, ValueError),
)
NO_FOLDER = translatable("There is no such folder; list_folders names them.")
NO_DRAFTS = translatable(
    "Could not find Drafts folder. Available folders can be listed with list_folders."
)


class ImapMailbox:
    """One mailbox on an IMAP server: its sessions, folders, ids and searches."""

    def __init__(
        self,
        access: ImapAccess,
        *,
        mailbox_id: UUID,
        key: object,
        chosen: Mapping[str, str] | None = None,
        domain: str = "",
    ) -> None:
        """Take the names of folders that a person chose, by role, and the domain of the address."""
        self.access = access
        self.domain = domain
        self._mailbox_id = mailbox_id
        self.key = key
        self._chosen = chosen or {}

    @contextmanager
    def session(self, *, uploaded: int = 0) -> Iterator[Session]:
        """Lend a session for one request, with a time limit that the server cannot extend.

        Uploads get more time.
        """
        give_back_connection()
        seconds = settings.MAILHUB_REQUEST_SECONDS + uploaded / SLOWEST_UPLOAD
        with (
            map_errors(),
            _map_odd_answers(),
            POOL.session(self.key, lambda: open_imap(self.access)) as session,
            conversation(session.client, seconds),
        ):
            yield session

    def select(self, session: Session, folder: str, *, writable: bool = False) -> None:
        """Open a folder for reading, or for changes. Each refusal names the folder."""
        try:
            session.select(folder, writable=writable)
        except IMAPClient.ReadOnlyError:
            raise Refused(
                "refused",
                translatable(
                    "The mail server lets mailhub only read the folder %(folder)s.", folder=folder
                ),
            ) from None
        except IMAPClient.AbortError:
            raise  # the connection is gone, which says nothing about the folder
        except IMAPClient.Error as error:
            if FOR_NOW.search(str(error)):
                raise Unavailable(
                    "unreachable",
                    translatable(
                        "The mail server cannot open the folder %(folder)s right now.",
                        folder=folder,
                    ),
                ) from None
            if self._is_there(session, folder):
                raise Refused(
                    "refused",
                    translatable(
                        "The mail server cannot open the folder %(folder)s.", folder=folder
                    ),
                ) from None
            raise NotFound(
                translatable(
                    "There is no folder %(folder)s; list_folders names them.", folder=folder
                )
            ) from None

    def _is_there(self, session: Session, folder: str) -> bool:
        """Return True if it is a folder that holds mail: few servers say so in their refusal."""
        listed = session.client.list_folders(pattern=folder)
        return any(name == folder and not HOLDS_NOTHING & set(flags) for flags, _, name in listed)

    def open_message(self, session: Session, message_id: str, *, writable: bool = False) -> Place:
        """Select the folder that an id names; raise NotFound if the id is no longer
        valid here.
        """
        place = message_ids.decode(message_id, self._mailbox_id)
        if place is None:
            raise NotFound()
        self.select(session, place.folder, writable=writable)
        if session.uid_validity != place.uid_validity:
            raise NotFound(
                translatable("The mail server renumbered this folder. List its messages again.")
            )
        return place

    def make_id(self, session: Session, uid: int) -> str:
        place = Place(folder=session.folder or "", uid_validity=session.uid_validity, uid=uid)
        return message_ids.encode(place, self._mailbox_id)

    def list_folders(self, session: Session) -> list[ListedFolder]:
        return list_folders(session, self._chosen)

    def find_folder(self, session: Session, folder: str, *, creates: bool = False) -> str:
        """Return the name of the folder; `creates` makes the one of a missing role."""
        role = role_of(folder)
        if role == "inbox":
            return "INBOX"
        if role is None:
            if UNSAFE_ARGUMENT.search(folder):
                raise NotFound(NO_FOLDER)
            return folder
        for listed in self.list_folders(session):
            if listed.role == role:
                return listed.name
        if creates and role in CREATED:
            return self._create(session, role)
        if role == "drafts":
            raise NotFound(NO_DRAFTS)
        raise NotFound(
            translatable(
                "Could not find the %(role)s folder. list_folders names the folders there are.",
                role=role,
            ),
        )

    def _create(self, session: Session, role: str) -> str:
        try:
            return create_folder(session, role)
        except IMAPClient.AbortError:
            raise
        except IMAPClient.Error:
            raise Refused(
                "refused",
                translatable(
                    "The mail server does not let mailhub create the folder %(folder)s.",
                    folder=CREATED[role],
                ),
            ) from None

    def find_newest(
        self, session: Session, criteria: Sequence[Criterion], *, count: int, below: int | None
    ) -> list[int]:
        """Return the newest UIDs that match, newest first: search the end of the folder, then the
        rest if needed.

        Most searches look for new mail, and searching 500 messages costs a tenth of searching
        10,000.
        """
        top = below if below is not None else max(session.uid_next, 1)
        low = max(top - max(FIRST_WINDOW, count), 1)
        high = "*" if below is None else str(below - 1)
        if below is not None and below <= 1:
            return []
        # A client without UIDPLUS, and many a mail program, only marks what it deletes.
        criteria = ["UNDELETED", *criteria]
        found = _search(session, ["UID", f"{low}:{high}", *criteria])
        # `low:*` names the last message even if it is older than `low`: the second search may find
        # it again.
        uids = set(found)
        if len(uids) < count and low > 1:
            uids.update(_search(session, ["UID", f"1:{low - 1}", *criteria]))
        return sorted(uids, reverse=True)[:count]

    def find_all(self, session: Session, criteria: Sequence[Criterion]) -> list[int]:
        """Return the UIDs in the selected folder that match, in the server's order."""
        return _search(session, ["UNDELETED", *criteria])

    def find_naming(self, session: Session, message_ids: Sequence[str]) -> set[int]:
        """Return the UIDs of the messages in the selected folder that name one of these ids."""
        found: set[int] = set()
        for first in range(0, len(message_ids), IDS_TOGETHER):
            keys = [
                ("HEADER", header, Text(message_id))
                for message_id in message_ids[first : first + IDS_TOGETHER]
                for header in NAMING
            ]
            either = ["OR"] * (len(keys) - 1)
            naming = (word for key in keys for word in key)
            found.update(_search(session, ["UNDELETED", *either, *naming]))
        return found

    def is_present(self, session: Session, uid: int) -> bool:
        """Return True if the selected folder has this message, and nobody marked it as deleted."""
        row = session.client.fetch([uid], ["FLAGS"]).get(uid)
        return row is not None and rb"\Deleted" not in row[b"FLAGS"]

    def find_sent_as(self, session: Session, message_id: str) -> list[str]:
        """Return the Message-IDs of the messages in the selected folder that were sent with this
        one.
        """
        if not SAFE_MESSAGE_ID.fullmatch(message_id):
            raise Refused("invalid_message_id")
        found: dict[int, str] = {}
        for header in ID_HEADERS:
            found |= self.find_by_id(session, header, message_id)
        return [own_id or message_id for own_id in found.values()]

    def find_by_id(
        self, session: Session, header: str, message_id: str, *more: Criterion
    ) -> dict[int, str]:
        """Return the UIDs of the messages in the selected folder that have this id in the header,
        the newest first, with their Message-IDs.

        The headers are compared here, because a server may find messages without the id.
        """
        uids = sorted(_search(session, ["HEADER", header, Text(message_id), *more]))[-COMPARED:]
        rows = session.client.fetch(uids, [f"BODY.PEEK[HEADER.FIELDS ({' '.join(ID_HEADERS)})]"])
        found: dict[int, str] = {}
        for uid in reversed(uids):
            block = lenient.headers(body_of(rows.get(uid, {})))
            if lenient.decode_text(block[header]) == message_id:
                found[uid] = lenient.decode_text(block["Message-ID"])
        return found

    def read_message_id(self, session: Session, uid: int) -> str:
        rows = session.client.fetch([uid], ["BODY.PEEK[HEADER.FIELDS (MESSAGE-ID)]"])
        return (
            lenient.decode_text(lenient.headers(body_of(rows[uid]))["Message-ID"])
            if uid in rows
            else ""
        )


def _search(session: Session, criteria: Sequence[Criterion]) -> list[int]:
    try:
        # imapclient's `search` quotes few texts: `{10}` would announce a literal, and `%` would be
        # refused.
        rows = session.client._raw_command_untagged(b"SEARCH", arguments(criteria))
    except IMAPClient.AbortError:
        raise
    except IMAPClient.Error as error:
        if NOT_SEARCHED.search(str(error)):
            raise Refused("invalid_query", "The mail server does not accept this search.") from None
        raise
    return list(parse_message_list(rows))


def body_of(row: dict[bytes, Any], section: bytes = b"") -> bytes:
    """Return the first BODY section of a row whose name begins so; servers write the rest of the name
    in their own order and spelling.
    """
    name = b"BODY[" + section
    return next((value or b"" for key, value in row.items() if key.startswith(name)), b"")


@contextmanager
def _map_odd_answers() -> Iterator[None]:
    try:
        yield
    except ODD_ANSWER as error:
        if type(error) not in ODD_ANSWER:
            raise  # one of ours
        log.exception("odd_answer", provider="imap")
        raise Unavailable(
            "connection_lost", "The mail server gave an answer that mailhub cannot read."
        ) from None


@contextmanager
def map_errors() -> Iterator[None]:
    """Raise the errors of reading and signing in as errors that certainly sent nothing."""
    try:
        yield
    except LoginRefused as error:
        raise NotAuthorized("auth_error", error.sentence) from None
    except ConnectError as error:
        raise Unavailable("unreachable", error.sentence) from None
    except IMAPClient.ReadOnlyError:
        raise Refused(
            "refused", "The mail server no longer lets mailhub change this folder."
        ) from None
    except (IMAPClient.Error, OSError):
        raise Unavailable("connection_lost", "The mail server closed the connection.") from None
