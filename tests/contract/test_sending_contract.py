"""The duties of every provider when it sends a mail, saves a copy and looks it up."""

from collections.abc import Callable
from contextlib import suppress

import pytest

from approvals.core.types import LeaseLost
from tests.contract.conftest import EVERYBODY, Side
from tests.contract.messages import MESSAGE_ID, letter, same_message, subjects
from tests.support.servers.sandbox import ADA, CHARLES, MIRA
from tools.providers.base import Envelope, Handover
from tools.providers.errors import Refused


def handover(wire_started: Callable[[], None] = lambda: None) -> Handover:
    return Handover(wire_started=wire_started)


def test_sent_message_reaches_the_whole_envelope_unchanged(side: Side) -> None:
    source = letter()
    # Mira is in no header: a Bcc
    side.ada.send(Envelope(sender=ADA, recipients=(CHARLES, MIRA), source=source), handover())
    for address, expected in ((CHARLES, 1), (MIRA, 1), (ADA, 0)):
        arrived = side.inbox_of(address)
        assert len(arrived) == expected
        for found in arrived:
            same_message(side, found, source)
            assert MIRA not in found.decode() or address == MIRA


def test_wire_started_is_called_once_before_the_send(side: Side) -> None:
    seen: list[list[int]] = []
    side.ada.send(
        Envelope(sender=ADA, recipients=(CHARLES,), source=letter()),
        handover(lambda: seen.append([len(side.inbox_of(address)) for address in EVERYBODY])),
    )
    assert seen == [[0, 0, 0]]
    assert len(side.inbox_of(CHARLES)) == 1


def test_nothing_is_sent_when_wire_started_raises(side: Side) -> None:
    class Lost(Exception):
        pass

    def lost() -> None:
        raise Lost

    with pytest.raises(Lost):
        side.ada.send(Envelope(sender=ADA, recipients=(CHARLES,), source=letter()), handover(lost))
    # A later mail is there; an earlier one would be there too.
    side.ada.send(Envelope(sender=ADA, recipients=(CHARLES,), source=letter()), handover())
    assert len(side.inbox_of(CHARLES)) == 1


def test_copy_in_sent_is_found_and_saved_once(side: Side) -> None:
    if side.keeps_copies:
        side.ada.save_sent_copy(letter(), MESSAGE_ID)
        assert side.sent() == []  # the provider made its own copy when it sent
        return
    assert not side.ada.find_sent(MESSAGE_ID)
    for _ in range(2):
        side.ada.save_sent_copy(letter(), MESSAGE_ID)
        assert side.ada.find_sent(MESSAGE_ID)
    assert side.sent() == [letter()]
    assert not side.ada.find_sent("<another@lovelace.example>")
    assert subjects(side, folder="sent", unread=True) == []


def test_copy_is_not_saved_without_the_lease(side: Side) -> None:
    def lost() -> None:
        raise LeaseLost

    with suppress(LeaseLost):
        side.ada.save_sent_copy(letter(), MESSAGE_ID, check_lease=lost)
    assert side.sent() == []


def test_existing_copy_in_sent_is_not_doubled(side: Side) -> None:
    side.deliver(letter(), folder="sent")
    assert side.ada.find_sent(MESSAGE_ID)
    side.ada.save_sent_copy(letter(), MESSAGE_ID)
    assert side.sent() == [letter()]


def test_mail_in_another_folder_or_mailbox_was_not_sent(side: Side) -> None:
    side.deliver(letter(), folder="inbox")
    side.deliver(letter(), folder="drafts")
    side.deliver(letter(), folder="sent", address=CHARLES)
    assert not side.ada.find_sent(MESSAGE_ID)


@pytest.mark.parametrize("message_id", ["", "<a@b>\r\nX NOOP", '<a"b@c>', "no brackets", "<a b@c>"])
def test_invalid_message_id_was_not_sent(side: Side, message_id: str) -> None:
    with suppress(Refused):
        assert not side.ada.find_sent(message_id)
