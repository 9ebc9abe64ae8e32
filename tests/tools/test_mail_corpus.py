"""Every message of tests/corpus/mail, and messages made at random, read from their bytes."""

from datetime import UTC, datetime

import pytest

from tests.support.letter_checks import Seen, list_failures
from tests.support.letters import Letter, list_classes, read_letters
from tests.support.variations import make_letters
from tools.mail.message import mime
from tools.mail.message.authentication import GMAIL
from tools.mail.message.whole_text import read_whole
from tools.providers.messages import read_file, read_tree
from tools.reading import compact

ARRIVED = datetime(2026, 11, 24, 12, tzinfo=UTC)
LIMIT = 64 * 1024 * 1024


def see(letter: Letter) -> Seen:
    """Read the message as the tools do it, without a provider."""
    tree = mime.parse(letter.source)
    message = read_tree(tree, id_="1", arrived=ARRIVED, body=True, own=GMAIL)

    def read(*, quoted: bool) -> dict[str, object]:
        body = read_whole(message, quoted=quoted)
        return {**compact.message(message, body, offset=0, max_chars=20_000)}

    return Seen(
        card={"from": message.from_address, "name": message.from_name},
        read=read(quoted=False),
        whole=read(quoted=True) if letter.quoted else {},
        listed=[dict(compact.attachment(info)) for info in message.attachments],
        contents=[read_file(tree, info.id, limit=LIMIT)[1] for info in message.attachments],
        has_date=letter.date != "arrival",
    )


def list_wrong(letters: list[Letter]) -> str:
    found = {letter.id: list_failures(letter, see(letter)) for letter in letters}
    return "\n".join(f"{id_}: {each}" for id_, failures in found.items() for each in failures)


@pytest.mark.static
def test_corpus_has_messages_of_every_class() -> None:
    letters = [letter for name in list_classes() for letter in read_letters(name)]
    ids = [letter.id for letter in letters]
    assert len(set(ids)) == len(ids)
    assert len(ids) >= 360
    assert not [letter.id for letter in letters if len(letter.fact) < 20]


@pytest.mark.parametrize("name", list_classes())
def test_each_message_is_read_as_the_corpus_expects(name: str) -> None:
    wrong = list_wrong(read_letters(name))
    assert not wrong, wrong


def test_random_messages_are_read_whole() -> None:
    wrong = list_wrong(make_letters(200, seed=2))
    assert not wrong, wrong
