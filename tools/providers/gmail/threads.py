"""The conversations of Gmail that belong to one conversation of people."""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from tools.providers.base import Message, Thread
from tools.providers.errors import NotFound, ProviderError
from tools.providers.gmail import payload, queries
from tools.providers.gmail.mailbox import GmailMailbox
from tools.providers.gmail.trees import GmailTrees
from tools.providers.threads import MOST_PEOPLE, missing, naming, people_of

PAGE = 500  # the largest that Gmail gives
MOST_PAGES = 10  # of the newest mail since a time
MOST_THREADS = 10  # that one search may find
MOST_CANDIDATES = 50  # of the newest mail of people, whose headers are read
TOGETHER = 20  # terms of one search
HIDDEN = {"DRAFT", "TRASH"}


class GmailThreads:
    """The conversations that were read so far. `answers` has Gmail's answer for each message."""

    def __init__(
        self, mailbox: GmailMailbox, trees: GmailTrees, list_: Callable[..., dict[str, Any]]
    ) -> None:
        self._mailbox = mailbox
        self._trees = trees
        self._list = list_
        self._threads: set[str] = set()
        self._first: Message | None = None
        self._candidates: Thread | None = None
        self.answers: dict[str, Mapping[str, Any]] = {}

    def read_first(self, named: str) -> Thread:
        """Return the conversation of a message or with this id. Raises NotFound."""
        try:
            thread = self._mailbox.get_message(named, fields="threadId")["threadId"]
        except NotFound:
            thread = named
        messages = self._read(thread)
        self._first = next((each for each in messages if each.id == named), messages[0])
        return Thread(messages=messages)

    def find_ids(self, ids: Sequence[str], found: Collection[Message]) -> Thread:
        """Return the conversations that hold messages with these ids."""
        wanted = [each.strip("<>") for each in missing(ids, found)]
        rows, is_whole = self._list_any("rfc822msgid:", wanted)
        new = dict.fromkeys(str(row["threadId"]) for row in rows)
        threads = [each for each in new if each not in self._threads]
        return Thread(
            messages=tuple(each for id_ in threads[:MOST_THREADS] for each in self._read(id_)),
            is_whole=is_whole and len(threads) <= MOST_THREADS,
        )

    def find_people(self, ids: Sequence[str], found: Collection[Message]) -> Thread:
        """Return the mail of the people in it that names these ids, also in other conversations."""
        if self._candidates is None:
            self._candidates = self._list_of_people(people_of(found), found)
        messages = naming(self._candidates.messages, ids, found)
        return Thread(messages=messages, is_whole=self._candidates.is_whole)

    def read_since(self, since: datetime, *, limit: int) -> Thread:
        """Return the oldest mail that arrived since then, without spam and trash.

        If the list is so long that the oldest is not reached, return nothing, and that as not whole.
        """
        query, token, ids = f"after:{int(since.timestamp()) - 1} -in:sent", None, list[str]()
        for _ in range(MOST_PAGES):
            answer = self._list(query, (), limit=PAGE, page_token=token)
            ids += (str(row["id"]) for row in answer.get("messages", ()))
            token = answer.get("nextPageToken")
            if token is None:
                break
        if token is not None:
            return Thread(messages=(), is_whole=False)
        oldest = ids[-limit:][::-1]
        messages = sorted(self._outlines(oldest), key=lambda each: each.arrived or since)
        return Thread(messages=tuple(messages), is_whole=len(oldest) == len(ids))

    def _list_of_people(self, people: Sequence[str], found: Collection[Message]) -> Thread:
        """Return their mail since the first message arrived, or since all that was found if it is
        gone.
        """
        first = (self._first,) if self._first else found
        since = min((each.arrived for each in first if each.arrived), default=None)
        if since is None:
            return Thread(messages=())
        period = f"after:{int(since.timestamp()) - 1} -in:sent"
        rows, is_whole = self._list_any("from:", people[:MOST_PEOPLE], period)
        known = {message.id for message in found}
        ids = [str(row["id"]) for row in rows if row["id"] not in known]
        is_whole = is_whole and len(people) <= MOST_PEOPLE
        return Thread(messages=self._outlines(ids), is_whole=is_whole)

    def _outlines(self, ids: Sequence[str]) -> tuple[Message, ...]:
        """Return these messages without those that are gone."""
        answers = self._mailbox.client.each("messages.get", get_outline, list(ids), again=True)
        for each in answers:
            if isinstance(each, ProviderError) and not isinstance(each, NotFound):
                raise each
        return self._messages([each for each in answers if not isinstance(each, ProviderError)])

    def _list_any(
        self, operator: str, values: Sequence[str], more: str = ""
    ) -> tuple[list[Mapping[str, Any]], bool]:
        """Return the rows for any of the values, and True if these are all rows."""
        usable = [each for each in values if queries.VALUE.fullmatch(each)]
        is_whole, rows = len(usable) == len(values), []
        for first in range(0, len(usable), TOGETHER):
            either = " ".join(f"{operator}{each}" for each in usable[first : first + TOGETHER])
            query = f"{{{either}}} {more}".strip()
            answer = self._list(query, (), limit=MOST_CANDIDATES, page_token=None)
            rows += answer.get("messages", ())
            is_whole = is_whole and "nextPageToken" not in answer
        return rows, is_whole

    def _read(self, thread: str) -> tuple[Message, ...]:
        self._threads.add(thread)
        answer = self._mailbox.read_known(
            "threads.get",
            lambda users: users.threads().get(
                userId="me", id=thread, format="full", fields=f"messages({payload.OUTLINE})"
            ),
        )
        everything = answer["messages"]
        return self._messages(everything) or self._messages(everything, hidden=set())

    def _messages(
        self, answers: Sequence[Mapping[str, Any]], hidden: Collection[str] = frozenset(HIDDEN)
    ) -> tuple[Message, ...]:
        shown = [each for each in answers if not set(hidden) & set(each.get("labelIds", ()))]
        self.answers |= {str(each["id"]): each for each in shown}
        return tuple(
            self._trees.of_payload(each).read(id_=str(each["id"]), body=False) for each in shown
        )


def get_outline(users: Any, id_: str) -> Any:
    return users.messages().get(userId="me", id=id_, format="full", fields=payload.OUTLINE)
