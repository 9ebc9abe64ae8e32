"""The warning about pictures that are loaded from a server: whose pictures they are."""

from dataclasses import replace

import pytest

from accounts.infra.texts import Translatable
from approvals.core.types import PreviewWarning
from tests.tools.warnings.messages import OWN, message
from tools.mail.message.content import Content, Original, build_answer, build_forward, own_content
from tools.warnings import Context, find_warnings

OWN_PICTURE = '<img src="https://own.example/a.png">'
ORIGINAL = Original(
    message_id="<1@northwind.example>",
    references=(),
    from_address="mira@northwind.example",
    from_name="Mira",
    reply_to=(),
    to=("alice@lovelace.example",),
    cc=(),
    subject="News",
    date=None,
    text="News",
    html='<p>News</p><img src="https://logo.northwind.example/b.png">',
)
TEXT = own_content("Fine.", "text")
PAGE = own_content(f"<p>Fine.</p>{OWN_PICTURE}", "html")


def warn_of_pictures(content: Content, kind: str) -> PreviewWarning | None:
    found = find_warnings(message(kind=kind, content=content), Context(own_domains=OWN))
    return next((each for each in found if each.code == "remote_content"), None)


@pytest.mark.parametrize("kind", ["reply", "forward"])
def test_own_picture_is_a_risk_and_the_only_one_named(kind: str) -> None:
    build = build_answer if kind == "reply" else build_forward
    found = warn_of_pictures(build(PAGE, ORIGINAL), kind)
    assert found is not None
    assert found.severity == "risk"
    assert "own.example" in found.text
    assert "northwind" not in found.text


def test_pictures_in_the_quote_of_an_answer_are_not_named() -> None:
    assert warn_of_pictures(build_answer(TEXT, ORIGINAL), "reply") is None


def test_pictures_of_a_forwarded_mail_are_a_notice_that_says_so() -> None:
    found = warn_of_pictures(build_forward(TEXT, ORIGINAL), "forward")
    assert found is not None
    assert found.severity == "notice"
    assert isinstance(found.text, Translatable)
    assert "1 picture of the forwarded mail comes from logo.northwind.example." in found.text


def test_every_picture_is_a_risk_if_the_quote_is_not_known() -> None:
    """A reviewer's edit keeps the HTML as a whole, so its quote cannot be told from the rest."""
    edited = replace(build_answer(TEXT, ORIGINAL), proposed_html="", has_original=False)
    found = warn_of_pictures(edited, "reply")
    assert found is not None
    assert found.severity == "risk"
