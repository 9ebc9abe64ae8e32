"""The limits of following a conversation, and the note that it may be incomplete."""

import uuid
from collections.abc import Collection, Sequence

import pytest

from tests.support.servers.sandbox import ADA, ImapTap, SandboxServer
from tools.providers.base import Message, Thread
from tools.providers.errors import Refused
from tools.providers.imap import ImapProvider
from tools.providers.imap.mailbox import ImapMailbox
from tools.providers.threads import MOST_IDS, MOST_SEARCHES, follow


def letter(number: int, *references: str) -> Message:
    return Message(
        id=str(number),
        from_address="mira@northwind.example",
        from_name="",
        to=(),
        cc=(),
        subject="",
        date=None,
        text=None,
        html=None,
        attachments=(),
        message_id=f"<{number}@x.example>",
        references=references,
    )


def test_refused_search_makes_a_conversation_incomplete() -> None:
    def refuse(ids: Sequence[str], found: Collection[Message]) -> Thread:
        raise Refused("invalid_query")

    thread = follow(Thread(messages=(letter(1),)), (), refuse, limit=9)

    assert [each.id for each in thread.messages] == ["1"]
    assert not thread.is_whole


def test_endless_conversation_ends_after_a_few_searches() -> None:
    asked: list[Sequence[str]] = []

    def find_another(ids: Sequence[str], found: Collection[Message]) -> Thread:
        asked.append(ids)
        return Thread(messages=(letter(len(found) + 1, *ids),))

    thread = follow(Thread(messages=(letter(1),)), (), find_another, limit=99)

    assert len(asked) == MOST_SEARCHES
    assert not thread.is_whole


def test_only_so_many_ids_are_searched_for() -> None:
    asked: list[str] = []

    def record(ids: Sequence[str], found: Collection[Message]) -> Thread:
        asked.extend(ids)
        return Thread(messages=())

    named = [f"<{number}@y.example>" for number in range(MOST_IDS)]
    thread = follow(Thread(messages=(letter(1, *named),)), (), record, limit=9)

    assert len(asked) == MOST_IDS
    assert asked[:2] == ["<1@x.example>", named[-1]]  # the nearest first
    assert not thread.is_whole


def test_earlier_search_goes_on_with_what_a_later_one_found() -> None:
    asked: list[tuple[str, str]] = []

    def find_nothing(ids: Sequence[str], found: Collection[Message]) -> Thread:
        asked.extend(("near", each) for each in ids)
        return Thread(messages=())

    def find_one(ids: Sequence[str], found: Collection[Message]) -> Thread:
        asked.extend(("far", each) for each in ids)
        return Thread(messages=() if len(found) > 1 else (letter(2, "<1@x.example>"),))

    thread = follow(Thread(messages=(letter(1),)), (), find_nothing, find_one, limit=9)

    one, two = "<1@x.example>", "<2@x.example>"
    assert asked == [("near", one), ("far", one), ("near", two), ("far", two)]
    assert thread.is_whole


@pytest.mark.parametrize("line", [b'EXAMINE "Sent"', b"HEADER In-Reply-To"], ids=["open", "search"])
def test_folder_that_refuses_makes_a_conversation_incomplete(
    sandbox: SandboxServer, line: bytes
) -> None:
    source = b"From: m@northwind.example\r\nMessage-ID: <1@x.example>\r\n\r\nhello\r\n"
    sandbox.deliver(ADA, source)
    with ImapTap(sandbox.state.imap_port) as tap:
        access = sandbox.access(ADA, imap_port=tap.port)
        provider = ImapProvider(ImapMailbox(access, mailbox_id=uuid.uuid4(), key=uuid.uuid4()))
        page = provider.list_messages(folder="inbox", unread=None, limit=1, page_token=None)
        tap.refuse(line, b"[BADCHARSET]")

        thread = provider.read_thread(page.cards[0].id, limit=9, body=False)

        assert [each.id for each in thread.messages] == [page.cards[0].id]
        assert not thread.is_whole
        assert provider.read_thread(page.cards[0].id, limit=9, body=False).is_whole
