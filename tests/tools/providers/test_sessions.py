"""Kept IMAP sessions: reused while they live, replaced when they do not, never shared by two
processes.
"""

import os
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from email import policy
from email.message import EmailMessage
from typing import cast

import pytest
from imapclient import IMAPClient

from accounts.infra import credentials
from accounts.models import Mailbox
from tests.support.concurrently import all_at_once
from tests.support.servers.sandbox import ADA, ImapTap, SandboxServer
from tools.providers import provider_for
from tools.providers.errors import NotAuthorized, ProviderError, Refused, Unavailable
from tools.providers.imap import ImapProvider
from tools.providers.imap.mailbox import ImapMailbox
from tools.providers.imap.sessions import MAX_KEPT, SessionPool

MAIL = b"From: m@northwind.example\r\nSubject: one\r\n\r\nhello\r\n"


@pytest.fixture
def tap(sandbox: SandboxServer) -> Iterator[ImapTap]:
    sandbox.deliver(ADA, MAIL)
    with ImapTap(sandbox.state.imap_port) as tap:
        yield tap


@pytest.fixture
def provider(sandbox: SandboxServer, tap: ImapTap) -> ImapProvider:
    return ImapProvider(
        ImapMailbox(
            sandbox.access(ADA, imap_port=tap.port), mailbox_id=uuid.uuid4(), key=uuid.uuid4()
        )
    )


def subjects(provider: ImapProvider) -> list[str]:
    page = provider.list_messages(folder="inbox", unread=None, limit=5, page_token=None)
    return [card.subject for card in page.cards]


def test_second_read_neither_signs_in_nor_selects_again(
    provider: ImapProvider, tap: ImapTap
) -> None:
    assert subjects(provider) == subjects(provider) == ["one"]
    assert (tap.connections, tap.count(b"LOGIN"), tap.count(b"EXAMINE")) == (1, 1, 1)


def test_first_words_come_with_the_structure_of_most_mails(
    provider: ImapProvider, tap: ImapTap, sandbox: SandboxServer
) -> None:
    def snippets() -> list[str]:
        page = provider.list_messages(folder="inbox", unread=None, limit=5, page_token=None)
        return [card.snippet for card in page.cards]

    text = EmailMessage()
    text.set_content("as text")
    text.add_alternative("<p>as a page</p>", subtype="html")
    sandbox.deliver(ADA, text.as_bytes(policy=policy.SMTP))
    assert snippets() == ["as text", "hello"]
    assert tap.count(b"FETCH") == 2, "one for the dates, one for all that a card shows"

    text.add_attachment(b"%PDF", "application", "pdf")  # around the two forms of the text
    sandbox.deliver(ADA, text.as_bytes(policy=policy.SMTP))
    assert snippets() == ["as text", "as text", "hello"]
    assert tap.count(b"FETCH") == 5


def test_missing_message_costs_no_new_sign_in(provider: ImapProvider, tap: ImapTap) -> None:
    assert subjects(provider) == ["one"]
    for folder in ("Nowhere", "archive"):
        with pytest.raises(Refused):
            provider.list_messages(folder=folder, unread=None, limit=1, page_token=None)
    assert subjects(provider) == ["one"]
    assert tap.count(b"LOGIN") == 1


@pytest.mark.parametrize(
    ("said", "raised", "code"),
    [
        (b"[INUSE]", Unavailable, "unreachable"),
        (b"[NOPERM]", Refused, "refused"),
        (b"", Refused, "refused"),
    ],
)
def test_folder_that_cannot_be_opened_is_not_called_missing(
    provider: ImapProvider, tap: ImapTap, said: bytes, raised: type[ProviderError], code: str
) -> None:
    page = provider.list_messages(folder="inbox", unread=None, limit=1, page_token=None)
    tap.cut()
    tap.refuse(b"EXAMINE", said)
    with pytest.raises(raised) as caught:
        provider.read_thread(page.cards[0].id, limit=2, body=False)
    assert caught.value.code == code
    assert [
        message.subject
        for message in provider.read_thread(page.cards[0].id, limit=2, body=False).messages
    ] == ["one"]


def test_closed_session_is_replaced(provider: ImapProvider, tap: ImapTap) -> None:
    assert subjects(provider) == ["one"]
    tap.cut()
    assert subjects(provider) == ["one"]
    assert tap.count(b"LOGIN") == 2


def test_server_restart_replaces_the_session(
    provider: ImapProvider, tap: ImapTap, sandbox: SandboxServer
) -> None:
    assert subjects(provider) == ["one"]
    sandbox.stop()
    sandbox.start()
    assert subjects(provider) == ["one"]
    assert tap.count(b"LOGIN") == 2


@pytest.mark.parametrize("command", [b"EXAMINE", b"SEARCH", b"FETCH"])
def test_session_lost_during_a_read_is_unavailable_once(
    provider: ImapProvider, tap: ImapTap, command: bytes
) -> None:
    tap.cut_at(command, times=1)
    with pytest.raises(Unavailable) as caught:
        subjects(provider)
    assert caught.value.code == "connection_lost"
    assert subjects(provider) == ["one"]
    assert tap.count(b"LOGIN") == 2


def test_saving_a_copy_is_not_repeated_automatically(
    provider: ImapProvider, tap: ImapTap, sandbox: SandboxServer
) -> None:
    assert subjects(provider) == ["one"]
    tap.cut_at(b"APPEND", times=1)
    with pytest.raises(Unavailable):
        provider.save_sent_copy(MAIL, "<a@b.example>")
    assert tap.count(b"APPEND") == 1
    assert sandbox.messages(ADA, "Sent") == []


def test_loose_search_proves_no_send_and_names_no_draft(
    provider: ImapProvider, tap: ImapTap, sandbox: SandboxServer
) -> None:
    tap.finds_everything = True
    another = b"Message-ID: <another@b.example>\r\n" + MAIL
    for source in (b"Message-ID: <ours@b.example>\r\n" + MAIL, another):
        sandbox.deliver(ADA, source, folder="Sent")

    assert provider.find_sent("<never@b.example>") is None
    assert provider.find_sent("<ours@b.example>") == "<ours@b.example>"

    tap.once_before(b"SEARCH", lambda: sandbox.deliver(ADA, another, folder="Drafts"))
    source = b"Message-ID: <draft@b.example>\r\n" + MAIL
    assert provider.read_draft(provider.save_draft(source).id).source == source


def test_missing_server_is_unavailable(provider: ImapProvider, tap: ImapTap) -> None:
    assert subjects(provider) == ["one"]
    tap.down = True
    tap.cut()
    with pytest.raises(Unavailable) as caught:
        subjects(provider)
    assert caught.value.code == "unreachable"
    tap.down = False
    assert subjects(provider) == ["one"]


def test_break_during_sign_in_is_no_refused_password(provider: ImapProvider, tap: ImapTap) -> None:
    tap.cut_at(b"LOGIN", times=1)
    with pytest.raises(Unavailable):
        subjects(provider)


def test_parallel_reads_share_sessions_and_get_whole_answers(
    provider: ImapProvider, tap: ImapTap
) -> None:
    assert all_at_once([lambda: subjects(provider)] * 8) == [["one"]] * 8
    assert tap.count(b"LOGIN") <= 8
    signed_in = tap.count(b"LOGIN")
    assert all_at_once([lambda: subjects(provider)] * MAX_KEPT) == [["one"]] * MAX_KEPT
    assert tap.count(b"LOGIN") == signed_in


@pytest.mark.django_db
def test_changed_credentials_use_a_session_of_their_own(
    sandbox: SandboxServer, tap: ImapTap
) -> None:
    mailbox_id = uuid.uuid4()
    secrets = sandbox.access(ADA, imap_port=tap.port).as_secrets()
    mailbox = Mailbox.objects.create(
        id=mailbox_id,
        address=ADA,
        provider="imap",
        credentials=credentials.encrypt(secrets, mailbox_id=mailbox_id),
    )
    for _ in range(2):
        provider_for(mailbox).list_messages(folder="inbox", unread=None, limit=1, page_token=None)
    assert tap.count(b"LOGIN") == 1

    mailbox.credentials = credentials.encrypt(
        {**secrets, "password": "wrong"}, mailbox_id=mailbox_id
    )
    mailbox.credentials_version += 1
    with pytest.raises(NotAuthorized):
        provider_for(mailbox).list_messages(folder="inbox", unread=None, limit=1, page_token=None)
    assert tap.count(b"LOGIN") == 2


def test_two_mailboxes_never_share_a_session(sandbox: SandboxServer, tap: ImapTap) -> None:
    access = sandbox.access(ADA, imap_port=tap.port)
    for _ in range(2):
        subjects(ImapProvider(ImapMailbox(access, mailbox_id=uuid.uuid4(), key=uuid.uuid4())))
    assert tap.count(b"LOGIN") == 2


# Since Python 3.12 a fork beside threads causes a warning; the fork here only reads and exits.
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_forked_process_signs_in_with_sessions_of_its_own(
    provider: ImapProvider, tap: ImapTap
) -> None:
    assert subjects(provider) == ["one"]
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, ",".join(subjects(provider)).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as said:
        assert said.read() == b"one"
    os.waitpid(child, 0)
    assert tap.count(b"LOGIN") == 2
    assert subjects(provider) == ["one"]
    assert (tap.count(b"LOGIN"), tap.count(b"LOGOUT")) == (2, 0)


def test_only_a_few_sessions_are_kept() -> None:
    class Client:
        closed = 0

        def noop(self) -> None:
            pass

        def shutdown(self) -> None:
            Client.closed += 1

    pool = SessionPool()
    with ExitStack() as lent:
        for _ in range(MAX_KEPT + 2):
            lent.enter_context(pool.session("key", lambda: cast(IMAPClient, Client())))
    assert Client.closed == 2
    pool.close_all()
    assert Client.closed == MAX_KEPT + 2
