"""Two texts are compared word by word."""

import pytest

from approvals.gate.differences import word_by_word

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize(
    ("before", "after", "pieces"),
    [
        ("", "new", [("added", "new")]),
        ("old", "", [("removed", "old")]),
        ("same", "same", [("same", "same")]),
        (
            "a b\nc d\n",
            "a b\nc e\n",
            [("same", "a b\nc "), ("removed", "d"), ("added", "e"), ("same", "\n")],
        ),
        (
            "星期四送货",
            "星期五送货",
            [("same", "星期"), ("removed", "四"), ("added", "五"), ("same", "送货")],
        ),
        ("Straße 1", "Straße 2", [("same", "Straße "), ("removed", "1"), ("added", "2")]),
    ],
)
def test_texts_are_compared_word_by_word(
    before: str, after: str, pieces: list[tuple[str, str]]
) -> None:
    found = word_by_word(before, after)

    assert [(piece.sort, piece.text) for piece in found] == pieces
    assert "".join(piece.text for piece in found if piece.sort != "added") == before
    assert "".join(piece.text for piece in found if piece.sort != "removed") == after


def test_texts_too_long_to_compare_are_shown_as_replaced() -> None:
    before, after = ("\n".join(f"{word}{n}" for n in range(20_000)) for word in "ab")

    assert [piece.sort for piece in word_by_word(before, after)] == ["removed", "added"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (" ".join(f"a{n}" for n in range(900)), " ".join(f"b{n}" for n in range(900))),
        ("Helo" + "\n" * 4900, "Hello" + "\n" * 4900),
    ],
)
def test_texts_that_take_long_to_compare_are_shown_as_replaced(before: str, after: str) -> None:
    found = [(piece.sort, piece.text) for piece in word_by_word(before, after)]
    assert found == [("removed", before), ("added", after)]


def test_changed_words_of_a_long_text_are_found() -> None:
    before = " ".join(f"word{n % 300}" for n in range(900))
    found = word_by_word(before, before.replace("word7 ", "word8 "))
    assert [piece.text for piece in found if piece.sort != "same"] == ["word7", "word8"] * 3
