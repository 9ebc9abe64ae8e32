"""Message ids on IMAP: opaque, and useless in another mailbox."""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.providers.imap.message_ids import MAX_UID, Place, decode, encode

MINE, THEIRS = uuid.UUID(int=1), uuid.UUID(int=2)
numbers = st.integers(1, MAX_UID)
printable = st.characters(exclude_categories=("C", "Z"), include_characters=" ")
places = st.builds(Place, folder=st.text(printable, max_size=60), uid_validity=numbers, uid=numbers)


@given(place=places)
def test_id_leads_back_to_its_place(place: Place) -> None:
    message_id = encode(place, MINE)
    assert decode(message_id, MINE) == place
    assert message_id.isascii()
    assert not set(message_id) - set(
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    )


@given(place=places)
def test_id_means_nothing_in_another_mailbox(place: Place) -> None:
    assert decode(encode(place, MINE), THEIRS) is None


@given(place=places, data=st.data())
def test_altered_id_names_nothing(place: Place, data: st.DataObject) -> None:
    """Alter a letter, of which the last may hold unused bits, or only the spelling."""
    message_id = encode(place, MINE)
    at = data.draw(st.integers(0, len(message_id) - 1))
    letter = data.draw(st.sampled_from("AZaz09-_"))
    padded = message_id + "=" * (-len(message_id) % 4)
    for changed in (message_id[:at] + letter + message_id[at + 1 :], padded):
        if changed != message_id:
            assert decode(changed, MINE) is None


@given(text=st.text(max_size=200))
def test_any_text_can_be_read_as_an_id_without_an_error(text: str) -> None:
    assert decode(text, MINE) is None


@pytest.mark.parametrize("uid", [0, -1, MAX_UID + 1, 10**30])
def test_number_that_is_no_uid_is_no_id(uid: int) -> None:
    assert decode(encode(Place(folder="INBOX", uid_validity=1, uid=uid), MINE), MINE) is None
