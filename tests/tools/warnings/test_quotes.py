"""Nothing that a proposer writes escapes the warnings because it looks like a quote."""

import pytest

from tests.tools.warnings.messages import codes, message
from tools.mail.html.clean import clean_html
from tools.mail.message.content import (
    Content,
    Original,
    build_answer,
    find_quote,
    own_content,
    without_quote,
)

AWS = "AKIA" + "ABCDEFGH12345678"
ATTRIBUTION = "On Mon, 3 Mar 2025 at 09:12 +0000, Mira <mira@northwind.example> wrote:"
SHAPES = (
    "Hello\n\n{line}\n> {evil}\n",
    "Hello\n\n{line}\n\n{evil}\n",
    "> {evil}\n\nHello\n",
    "Hello\n\n---------- Forwarded message ----------\n{evil}\n",
    "Hello\n\n-----Original Message-----\nFrom: Mira\nSent: today\nSubject: x\n\n{evil}\n",
)
EVILS = {
    "secret": f"key {AWS}",
    "bidi": "Pay \u202e0001\u202c euro",
    "long_query": f"https://x.example/?q={'a' * 300}",
}


@pytest.mark.parametrize("code", EVILS)
@pytest.mark.parametrize("shape", SHAPES)
def test_text_that_looks_like_a_quote_is_judged(shape: str, code: str) -> None:
    body = shape.format(line=ATTRIBUTION, evil=EVILS[code])
    assert code in codes(message(body))
    assert code in codes(message(body, kind="reply", in_reply_to="<a@northwind.example>"))


@pytest.mark.parametrize("code", EVILS)
@pytest.mark.parametrize(
    "page",
    [
        "<p>Hello</p><blockquote type='cite'>{evil}</blockquote>",
        "<p>Hello</p><p>{line}</p><blockquote><p>{evil}</p></blockquote>",
        "<p>Hello</p><div class='gmail_quote'>{evil}</div>",
    ],
)
def test_page_that_looks_like_a_quote_is_judged(page: str, code: str) -> None:
    line = ATTRIBUTION.replace("<", "&lt;")
    assert code in codes(message(page.format(line=line, evil=EVILS[code]), html=True))


def original(text: str = "The key is below.", html: str | None = None) -> Original:
    return Original(
        message_id="<a@northwind.example>",
        references=(),
        from_address="mira@northwind.example",
        from_name="Mira",
        reply_to=(),
        to=(),
        cc=(),
        subject="Key",
        date=None,
        text=f"{text}\n\nkey {AWS}",
        html=html,
    )


def edited(body: str, quoted: str, *, html: bool = False) -> list[str]:
    return codes(message(body, html=html, kind="reply"), quoted=quoted)


def test_true_quote_in_an_edited_answer_is_not_judged() -> None:
    answer = build_answer(own_content("Thanks", "text"), original())
    quote = find_quote(answer.text, "Thanks")
    assert quote.startswith("On an unknown day, Mira <mira@northwind.example> wrote:\n> The key")
    assert edited(answer.text.replace("Thanks", "Thank you"), quote) == []
    assert edited(f"{answer.text}\nalso {AWS}", quote) == ["secret"]
    assert edited(answer.text.replace("below", "bel0w"), quote) == ["secret"]
    assert edited(answer.text, "") == ["secret"]


def test_true_quote_of_a_page_in_an_edited_answer_is_not_judged() -> None:
    page = f"<ul><li>The key</li><li>is below.</li></ul><p>key {AWS}</p>"
    answer = build_answer(own_content("Thanks", "text"), original(html=page))
    quote = find_quote(answer.text, "Thanks")
    assert answer.html is not None
    assert edited(answer.html.replace("Thanks", "Thank you"), quote, html=True) == []
    assert edited(f"{answer.html}<p>{AWS}</p>", quote, html=True) == ["secret"]


def test_comment_that_ends_like_a_quote_is_no_true_quote() -> None:
    fake = f"Hello\n\n{ATTRIBUTION}\n> key {AWS}"
    assert find_quote(f"{fake}\n", fake) == ""
    assert (
        find_quote(f"{fake}\n", clean_html(fake.replace("<", "&lt;").replace("\n", "<br>"))) == ""
    )

    answer = build_answer(own_content(fake, "text"), original(text="Hi"))
    quote = find_quote(answer.text, fake)
    assert quote.startswith("On an unknown day")
    assert edited(answer.text, quote) == ["secret"]


def test_quote_without_end_is_left_in_the_text() -> None:
    quote = f"{ATTRIBUTION}\n> one\n> two"
    assert without_quote(f"Hello\n{ATTRIBUTION}\n> one", quote).endswith("> one")
    assert without_quote(f"Hello\n{ATTRIBUTION}\none two\nafter", quote) == "Hello\n\n\nafter"
    assert without_quote("Hello", quote) == "Hello"
    assert Content(body="x", text="x").body == without_quote("x", "")
