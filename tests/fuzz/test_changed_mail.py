"""Messages of the corpus, broken at random, are read without errors, in time, and in little memory."""

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.contract.conftest import ImapSide
from tests.fuzz import changes, seeds, targets
from tests.support.servers.sandbox import SandboxServer
from tools.mail.message.whole_text import read_whole
from tools.providers.errors import ProviderError

MAILS = seeds.list_mails()
DRAWN = st.lists(
    st.tuples(st.sampled_from(changes.CHANGES), st.integers(0, 2**32 - 1)), min_size=1, max_size=4
)
OVER_IMAP = 25


@settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow])
@given(source=st.sampled_from(MAILS), drawn=DRAWN)
def test_changed_mail_is_read_within_its_limits(
    source: bytes, drawn: list[tuple[changes.Change, int]]
) -> None:
    cost = targets.measure(targets.read_mail, changes.apply(source, drawn))
    assert not cost.is_too_high, cost


@settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow])
@given(source=st.sampled_from(seeds.STRUCTURES), drawn=DRAWN)
def test_changed_description_of_a_mail_is_read(
    source: bytes, drawn: list[tuple[changes.Change, int]]
) -> None:
    cost = targets.measure(targets.read_structure, changes.apply(source, drawn))
    assert not cost.is_too_high, cost


@pytest.mark.parametrize("target", sorted(targets.TARGETS))
def test_inputs_that_once_failed_are_read(target: str) -> None:
    for source in seeds.list_cases(target):
        cost = targets.measure(targets.TARGETS[target], source)
        assert not cost.is_too_high, cost


def test_changed_mails_are_listed_and_read_over_imap(sandbox: SandboxServer) -> None:
    side = ImapSide(sandbox)
    draw = random.Random(17)
    for _ in range(OVER_IMAP):
        drawn = [(draw.choice(changes.CHANGES), draw.getrandbits(32)) for _ in range(2)]
        side.deliver(changes.apply(draw.choice(MAILS), drawn) or b"\r\n")

    cards = side.ada.list_messages(
        folder="inbox", unread=None, limit=OVER_IMAP, page_token=None
    ).cards

    assert len(cards) == OVER_IMAP
    for card in cards:
        message = side.ada.read_message(card.id, body=True)
        targets.check_text(card.subject, card.snippet, read_whole(message).text)
        for each in message.attachments[:2]:
            try:
                side.ada.fetch_attachment(card.id, each.id, limit=targets.ATTACHMENT_BYTES)
            except ProviderError:
                continue
