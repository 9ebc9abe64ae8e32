"""Kept SMTP sessions: when a mail goes out over the connection of the mail before it, and when not."""

import os
import uuid
from collections.abc import Iterator

import pytest

from accounts.connect.imap import PinnedSmtp, open_smtp
from tests.support.processes.programs import until
from tests.support.servers.smtp import FaultySmtp
from tests.tools.providers.smtp_handover import SOURCE, Plan, access, drop, reply, reset
from tools.providers.base import Envelope, Handover
from tools.providers.errors import OutcomeUnknown, ProviderError
from tools.providers.imap import ImapProvider
from tools.providers.imap.mailbox import ImapMailbox
from tools.providers.imap.smtp_sessions import MAX_KEPT, MAX_MAILS, SESSIONS, SmtpSessions


@pytest.fixture
def mailbox(smtp: FaultySmtp) -> Iterator[ImapProvider]:
    """Yield a mailbox whose mails go to the faulty server; other tests may have filled the room."""
    SESSIONS.close_all()
    yield ImapProvider(ImapMailbox(access(smtp), mailbox_id=uuid.uuid4(), key=uuid.uuid4()))
    SESSIONS.close_all()


def send(mailbox: ImapProvider, number: int) -> None:
    source = SOURCE.replace(b"Hello.", b"Mail %d" % number)
    mailbox.send(
        Envelope(
            sender="ada@lovelace.example", recipients=("mira@lovelace.example",), source=source
        ),
        Handover(wire_started=lambda: None),
    )


def count(smtp: FaultySmtp, verb: str) -> int:
    return sum(command.upper().startswith(verb) for command in smtp.commands)


def connections(smtp: FaultySmtp) -> int:
    return count(smtp, "EHLO")


def test_next_mail_uses_the_connection_after_rset(smtp: FaultySmtp, mailbox: ImapProvider) -> None:
    for number in range(3):
        send(mailbox, number)

    assert [b"Mail %d" % number in mail.content for number, mail in enumerate(smtp.ledger)] == [
        True
    ] * 3
    assert connections(smtp) == 1
    assert (count(smtp, "RSET"), count(smtp, "QUIT")) == (2, 0)


def test_other_credentials_get_another_connection(smtp: FaultySmtp, mailbox: ImapProvider) -> None:
    send(mailbox, 1)
    renewed = ImapProvider(ImapMailbox(access(smtp), mailbox_id=uuid.uuid4(), key=uuid.uuid4()))
    send(renewed, 2)

    assert connections(smtp) == 2


@pytest.mark.parametrize(
    "plan",
    [
        pytest.param(drop("mail"), id="drop"),
        pytest.param(reset("rcpt"), id="reset"),
        pytest.param(reply("550 no", "rcpt"), id="refused-recipient"),
        pytest.param(reply("451 later", "dot"), id="refused-for-now"),
        pytest.param(reply("554 never", "dot"), id="refused"),
        pytest.param(drop("accepted"), id="no-answer"),
        pytest.param(reply(b"rubbish\r\n", "dot"), id="no-verdict"),
    ],
)
def test_connection_is_not_used_after_an_error(
    smtp: FaultySmtp, mailbox: ImapProvider, plan: Plan
) -> None:
    send(mailbox, 1)
    plan(smtp)
    with pytest.raises(ProviderError):
        send(mailbox, 2)
    send(mailbox, 3)

    assert connections(smtp) == 2


@pytest.mark.parametrize(
    "plan",
    [
        pytest.param(drop("rset"), id="drop"),
        pytest.param(reset("rset"), id="reset"),
        pytest.param(reply("421 idle too long", "rset"), id="421"),
        pytest.param(reply(b"rubbish\r\n", "rset"), id="rubbish"),
    ],
)
def test_connection_that_ended_while_waiting_costs_no_mail(
    smtp: FaultySmtp, mailbox: ImapProvider, plan: Plan
) -> None:
    send(mailbox, 1)
    plan(smtp)
    send(mailbox, 2)

    assert len(smtp.ledger) == 2
    assert connections(smtp) == 2


def test_kept_connection_proves_as_much_when_the_answer_is_lost(
    smtp: FaultySmtp, mailbox: ImapProvider
) -> None:
    send(mailbox, 1)
    smtp.drop(at="accepted")
    with pytest.raises(OutcomeUnknown):
        send(mailbox, 2)

    assert len(smtp.ledger) == 2


def test_connection_ends_after_its_number_of_mails(smtp: FaultySmtp, mailbox: ImapProvider) -> None:
    for number in range(MAX_MAILS + 1):
        send(mailbox, number)

    assert connections(smtp) == 2
    until(lambda: count(smtp, "QUIT") == 1)


def test_idle_connection_ends_with_quit(smtp: FaultySmtp) -> None:
    sessions = SmtpSessions(idle_seconds=0.05)
    sessions.keep("mailbox", open_smtp(access(smtp)))

    until(lambda: count(smtp, "QUIT") == 1)
    assert sessions.take("mailbox", 5) is None


def test_only_so_many_connections_wait(smtp: FaultySmtp) -> None:
    sessions = SmtpSessions()
    try:
        for number in range(MAX_KEPT + 1):
            sessions.keep(number, open_smtp(access(smtp)))
        until(lambda: count(smtp, "QUIT") == 1)
        assert sessions.take(MAX_KEPT, 5) is None
    finally:
        sessions.close_all()


def test_fork_does_not_use_its_parents_connection(smtp: FaultySmtp) -> None:
    sessions = SmtpSessions()
    sessions.keep("mailbox", open_smtp(access(smtp)))
    child = os.fork()
    if child == 0:
        os._exit(0 if sessions.take("mailbox", 5) is None else 1)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    kept = sessions.take("mailbox", 5)
    assert isinstance(kept, PinnedSmtp)
    kept.close()
