"""Replacing a draft on servers that lack UIDPLUS, and while the folder is rebuilt."""

from collections.abc import Iterator

import pytest

from tests.contract.conftest import provider
from tests.contract.test_whole_mailbox_contract import mail
from tests.support.servers.dovecot import Dovecot
from tests.support.servers.sandbox import ImapTap
from tools.providers.errors import Refused
from tools.providers.imap import ImapProvider
from tools.providers.imap.sessions import POOL

ADA = "ada.in.trouble@lovelace.example"
FOREIGN = b"Subject: foreign, marked as deleted\r\nMessage-ID: <foreign@x.example>\r\n\r\nx\r\n"


@pytest.fixture
def tap(dovecot: Dovecot) -> Iterator[ImapTap]:
    client = dovecot.signed_in(ADA)
    client.select_folder("Drafts")
    if uids := client.search():
        client.delete_messages(uids)
        client.expunge()
    client.append("Drafts", FOREIGN, flags=(rb"\Deleted",))
    with ImapTap(dovecot.port) as tap:
        yield tap
        POOL.close_all()


def through(tap: ImapTap, dovecot: Dovecot) -> ImapProvider:
    access = dovecot.access(ADA)
    return provider(
        type(access)(
            imap=type(access.imap)(host="127.0.0.1", port=tap.port, security="plain"),
            smtp=access.smtp,
            username=access.username,
            password=access.password,
        )
    )


def subjects(dovecot: Dovecot) -> list[bytes]:
    return sorted(
        source.partition(b"Subject: ")[2].partition(b"\r\n")[0]
        for source in dovecot.messages(ADA, "Drafts")
    )


@pytest.mark.fault(46)
def test_old_draft_is_marked_and_not_expunged_without_uidplus(
    tap: ImapTap, dovecot: Dovecot
) -> None:
    tap.hidden_capability = b"UIDPLUS"
    ada = through(tap, dovecot)
    first = ada.save_draft(mail(1, subject="Old", message_id="<old@lovelace.example>").as_bytes())

    ada.save_draft(
        mail(2, subject="New", message_id="<new@lovelace.example>").as_bytes(), replaces=first.id
    )

    assert tap.count(b"EXPUNGE") == 0
    assert subjects(dovecot) == [b"New", b"Old", b"foreign, marked as deleted"]
    client = dovecot.signed_in(ADA)
    client.select_folder("Drafts")
    (old,) = client.search(["HEADER", "Message-ID", "<old@lovelace.example>"])
    assert rb"\Deleted" in client.get_flags([old])[old]


@pytest.mark.fault(46)
def test_only_the_old_draft_goes_with_uidplus(tap: ImapTap, dovecot: Dovecot) -> None:
    ada = through(tap, dovecot)
    first = ada.save_draft(mail(1, subject="Old", message_id="<old@lovelace.example>").as_bytes())

    ada.save_draft(
        mail(2, subject="New", message_id="<new@lovelace.example>").as_bytes(), replaces=first.id
    )

    assert all(
        line.split(b" ")[1:3] == [b"UID", b"EXPUNGE"] for line in tap.lines if b"EXPUNGE" in line
    )
    assert subjects(dovecot) == [b"New", b"foreign, marked as deleted"]


@pytest.mark.fault(46)
def test_folder_rebuilt_before_a_delete_loses_no_mail(tap: ImapTap, dovecot: Dovecot) -> None:
    ada = through(tap, dovecot)
    first = ada.save_draft(mail(1, subject="Old", message_id="<old@lovelace.example>").as_bytes())

    rebuilt = []

    def rebuild() -> None:
        client = dovecot.signed_in(ADA)
        sources = dovecot.messages(ADA, "Drafts")
        client.select_folder("INBOX")
        client.rename_folder("Drafts", "Before the rebuild")
        client.delete_folder("Before the rebuild")
        # Another order: the old draft's UID now belongs to another message.
        for source in [
            FOREIGN,
            *(source for source in reversed(sources) if b"foreign" not in source),
        ]:
            client.append("Drafts", source)
        rebuilt.append(True)

    appended = mail(2, subject="New", message_id="<new@lovelace.example>").as_bytes()
    # The first SELECT finds the old draft, and the second one comes after the append.
    tap.once_before(b"SELECT ", lambda: tap.once_before(b"SELECT ", rebuild))
    ada.save_draft(appended, replaces=first.id)

    assert rebuilt
    assert subjects(dovecot) == [b"New", b"foreign, marked as deleted"]


def test_draft_id_is_useless_after_a_rebuild(tap: ImapTap, dovecot: Dovecot) -> None:
    ada = through(tap, dovecot)
    first = ada.save_draft(mail(1, message_id="<old@lovelace.example>").as_bytes())
    client = dovecot.signed_in(ADA)
    client.select_folder("INBOX")
    client.delete_folder("Drafts")
    for _ in range(3):  # so the old draft's UID is another message's now
        client.append("Drafts", FOREIGN)
    POOL.close_all()

    with pytest.raises(Refused) as caught:
        ada.delete_draft(first.id)

    assert caught.value.code == "not_found"
    assert len(dovecot.messages(ADA, "Drafts")) == 3
