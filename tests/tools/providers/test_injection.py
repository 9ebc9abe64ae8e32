"""Text of callers and foreign mail stays inside its IMAP command: judged by the bytes on the
wire.
"""

import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from tests.support.servers.sandbox import ADA, ImapTap, SandboxServer
from tools.mail.message.lenient import ORIGINAL_ID_HEADERS
from tools.providers.errors import Refused
from tools.providers.imap import ImapProvider
from tools.providers.imap.mailbox import ImapMailbox
from tools.providers.imap.message_ids import Place, encode

MAILBOX = uuid.uuid4()
EVIL = [
    pytest.param("INBOX\r\nX STORE 1 +FLAGS (\\Deleted)\r\n", id="cr-lf"),
    pytest.param("INBOX\nX EXPUNGE", id="lf"),
    pytest.param("INBOX\rX EXPUNGE", id="cr"),
    pytest.param('INBOX" X EXPUNGE "', id="quote"),
    pytest.param("INBOX\\", id="backslash"),
    pytest.param('"\r\nX STORE 1 +FLAGS (\\Deleted)', id="quote-cr-lf"),
    pytest.param("INBOX {5+}\r\nX NOOP", id="literal"),
    pytest.param("a\0b", id="nul"),
    pytest.param("\u2028X STORE", id="line-separator"),
    pytest.param("čau\r\nX STORE", id="beyond-ascii"),
]
# The commands that the provider needs in these tests.
EXPECTED = {
    b"LOGIN",
    b"CAPABILITY",
    b"SELECT",
    b"EXAMINE",
    b"NAMESPACE",
    b"ID",
    b"LIST",
    b"UID",
    b"NOOP",
    b"APPEND",
}


@pytest.fixture
def tap(sandbox: SandboxServer) -> Iterator[ImapTap]:
    sandbox.deliver(ADA, b"Subject: one\r\n\r\nhello\r\n")
    with ImapTap(sandbox.state.imap_port) as tap:
        yield tap


@pytest.fixture
def provider(sandbox: SandboxServer, tap: ImapTap) -> ImapProvider:
    return ImapProvider(
        ImapMailbox(sandbox.access(ADA, imap_port=tap.port), mailbox_id=MAILBOX, key=uuid.uuid4())
    )


CALLS = [
    pytest.param(
        lambda provider, evil: provider.list_messages(
            folder=evil, unread=None, limit=1, page_token=None
        ),
        id="folder",
    ),
    pytest.param(
        lambda provider, evil: provider.list_messages(
            folder="inbox", unread=None, limit=1, page_token=evil
        ),
        id="token",
    ),
    pytest.param(
        lambda provider, evil: provider.list_messages(
            folder="inbox", unread=None, limit=1, page_token="1" + evil
        ),
        id="token-with-a-number",
    ),
    pytest.param(lambda provider, evil: provider.read_message(evil, body=True), id="message-id"),
    # A caller who knows how ids are made can name any folder.
    pytest.param(
        lambda provider, evil: provider.read_message(
            encode(Place(folder=evil, uid_validity=1, uid=1), MAILBOX), body=True
        ),
        id="folder-in-a-forged-message-id",
    ),
    pytest.param(
        lambda provider, evil: provider.find_sent(evil), id="search-for-a-foreign-message-id"
    ),
    pytest.param(
        lambda provider, evil: provider.find_sent(f"<{evil}@x.example>"),
        id="search-for-one-in-brackets",
    ),
    pytest.param(
        lambda provider, evil: provider.save_sent_copy(b"x\r\n", f"<a@{evil}>"),
        id="copy-with-such-an-id",
    ),
]


@pytest.mark.fault(51)
@pytest.mark.parametrize("evil", EVIL)
@pytest.mark.parametrize("call", CALLS)
def test_text_of_callers_and_foreign_mail_is_no_command(
    provider: ImapProvider,
    tap: ImapTap,
    sandbox: SandboxServer,
    call: Callable[[ImapProvider, str], object],
    evil: str,
) -> None:
    with suppress(Refused):
        call(provider, evil)

    # Everything before it has arrived.
    provider.list_messages(folder="inbox", unread=None, limit=1, page_token=None)
    for line in tap.lines:
        tag, command = line.split(b" ")[:2]
        assert command in EXPECTED
        assert tag != b"X"
    # A command in mid-line would have to close its quotes first.
    assert not any(b'" X EXPUNGE' in line.replace(b'\\"', b"") for line in tap.lines)
    assert len(sandbox.messages(ADA)) == 1


@pytest.mark.parametrize("name", ["a\0b", "a\r\nb", "a\x7fb", "a\ud800b"])
def test_folder_with_an_impossible_name_is_not_asked_for(
    provider: ImapProvider, tap: ImapTap, name: str
) -> None:
    with pytest.raises(Refused) as caught:
        provider.list_messages(folder=name, unread=None, limit=1, page_token=None)
    assert caught.value.code == "not_found"
    assert tap.count(b"SELECT") + tap.count(b"LIST") == 0


@pytest.mark.fault(51)
def test_message_id_in_a_search_is_one_word(provider: ImapProvider, tap: ImapTap) -> None:
    assert not provider.find_sent("<0123abc!#$&'+-/=?^_`|~@lovelace.example>")
    searches = [line for line in tap.lines if b"SEARCH" in line]
    assert [line.partition(b" HEADER ")[2].split(b" ") for line in searches] == [
        [header, b'"<0123abc!#$&\'+-/=?^_`|~@lovelace.example>"']
        for header in (b"Message-ID", *(name.encode() for name in ORIGINAL_ID_HEADERS))
    ]


@pytest.mark.fault(51)
@pytest.mark.parametrize("character", '%*(){}"\\ \x7fé')
def test_message_id_that_is_no_atom_is_not_searched(
    provider: ImapProvider, tap: ImapTap, character: str
) -> None:
    for message_id in (f"<a{character}b@x.example>", f"<a@x{character}y.example>"):
        with pytest.raises(Refused) as caught:
            provider.find_sent(message_id)
        assert caught.value.code == "invalid_message_id"
    assert tap.count(b"SEARCH") == 0
