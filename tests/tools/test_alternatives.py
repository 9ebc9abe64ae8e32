"""The plain text and the HTML of one message: differences that count, and those that are only
another way to write it.
"""

import pytest

from tools.mail.message.alternatives import differ, passages

GMAIL = (
    "Hi *Mira*,\n\nsee our plan <https://northwind.example/plan?id=1> and write to\nbob@northwind.example\n"
    "<bob@northwind.example>.\n\n   - one\n   - two\n\n[image: Logo]\n"
    "On Mon, Alice <alice@lovelace.example> wrote:\n\n> Lunch?\n",
    '<div>Hi <b>Mira</b>,<br><br>see <a href="https://northwind.example/plan?id=1">our plan</a> and write to '
    '<a href="mailto:bob@northwind.example">bob@northwind.example</a>.<ul><li>one</li><li>two</li></ul>'
    '<img src="cid:logo" alt="Logo"><br>On Mon, '
    'Alice &lt;<a href="mailto:alice@lovelace.example">alice@lovelace.example</a>&gt;'
    " wrote:<blockquote>Lunch?</blockquote></div>",
)


@pytest.mark.parametrize(
    ("text", "html"),
    [
        GMAIL,
        ("Hello", "<p>Hello</p>"),
        ("HELLO   there\n\n", "<h1>Hello</h1><p>there</p>"),
        ("_Hello_ *there*\n-----\n", "<i>Hello</i> <b>there</b><hr>"),
        ("1. one\n2. two\n", "<ol><li>one</li><li>two</li></ol>"),
        ("> quoted\n>> twice\n", "<blockquote>quoted<blockquote>twice</blockquote></blockquote>"),
        ("a & b < c", "<p>a &amp; b &lt; c</p>"),
        ("caf\u00e9", "<p>cafe\u0301</p>"),
        ("10\u00a0000 €", "<p>10&nbsp;000 &euro;</p>"),
        ("Donaudampfschiff", "<p>Donau&shy;dampf&shy;schiff</p>"),
        (
            "www.northwind.example",
            '<a href="https://www.northwind.example/">www.northwind.example</a>',
        ),
        ("付款 说明", "<p>付款 说明</p>"),
    ],
)
def test_other_notation_is_no_difference(text: str, html: str) -> None:
    assert not differ(text, html)
    assert passages(text, html) == ()


@pytest.mark.parametrize(
    ("text", "html", "marked"),
    [
        ("Pay to account 4711", "<p>Pay to account 1234</p>", ["4711"]),
        ("Pay 1.000 euro", "<p>Pay 1,000 euro</p>", ["1.000"]),
        ("Pay $100", "<p>Pay €100</p>", ["$"]),
        ("Do not pay", "<p>Do pay</p>", ["not"]),
        ("Bob pays Alice", "<p>Alice pays Bob</p>", []),
        ("Lunch", "<p>Lunch</p><p>and new bank details</p>", []),
        ("Lunch https://evil.example/x", "<p>Lunch</p>", ["https", "evil", "example", "x"]),
        ("Lunch [image: wire the money]", "<p>Lunch</p>", ["image", "wire the money"]),
        ("Zahle neun Euro sofort", "<p>Zahle</p>", ["neun Euro sofort"]),
        ("付款", "<p>说明</p>", ["付款"]),
        ("", "<p>Everything</p>", []),
    ],
)
def test_other_words_or_another_order_are_a_difference(
    text: str, html: str, marked: list[str]
) -> None:
    assert differ(text, html)
    found = passages(text, html)
    assert "".join(each.text for each in found) == text
    assert [each.text for each in found if each.only_here] == marked
