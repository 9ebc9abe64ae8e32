"""Only the requested content gets into a message: each comparison and each filter by itself."""

import dataclasses
from email import message_from_bytes, policy

import pytest

from tests.tools.test_compose import ASK, asked
from tools.mail.html.clean import clean, split_hidden
from tools.mail.message.compose import (
    Attachment,
    ComposeError,
    chain,
    check,
    media_type,
    new_message,
    parent,
    reply_subject,
)
from tools.mail.message.content import Original

NOTE = Attachment(name="note.txt", type="text/plain", content=b"pay 10")
ORIGINAL = Original(
    message_id="<new@x.example>",
    references=(),
    from_address="mira@northwind.example",
    from_name="Mira",
    reply_to=(),
    to=(ASK.from_address,),
    cc=(),
    subject="Hello",
    date=None,
    text="Hi",
    html=None,
)


def test_other_attachment_is_rejected() -> None:
    message = new_message(asked(attachments=(NOTE,)))
    for old, new in ((b"cGF5IDEw", b"cGF5IDk5"), (b"note.txt", b"nota.txt")):
        assert old in message.source
        with pytest.raises(ComposeError, match="attachments"):
            check(dataclasses.replace(message, source=message.source.replace(old, new)))


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        (b"From: ", b"From: eve@evil.example, ", "from"),
        (b"To: mira@", b"To: eve@", "to"),
        (b"Cc: ", b"Cc: eve@evil.example, ", "cc"),
        (b"Subject: Hello", b"Subject: Other", "subject"),
        (b"MIME-Version: 1.0", b"MIME-Version: 1.0\r\nReply-To: eve@evil.example", "headers"),
    ],
)
def test_each_header_is_compared_on_its_own(old: bytes, new: bytes, named: str) -> None:
    message = new_message(asked(cc=("bob@lovelace.example",)))
    assert message.source.count(old) == 1
    with pytest.raises(ComposeError) as refused:
        check(dataclasses.replace(message, source=message.source.replace(old, new)))
    assert named in str(refused.value).partition(": ")[2].split(", ")


@pytest.mark.parametrize(
    "address", ["Eve <eve@evil.example>", "mira@northwind.example, eve@evil.example"]
)
def test_recipient_that_is_more_than_an_address_is_refused(address: str) -> None:
    with pytest.raises(ComposeError, match="to"):
        new_message(asked(to=(address,)))


def test_structure_that_programs_repair_is_rejected() -> None:
    message = new_message(asked(body="<p>Hi</p>", body_type="html"))
    source = message.source.rstrip()
    assert source.endswith(b"--")
    cut = source[: source.rindex(b"\r\n--")] + b"\r\n"
    with pytest.raises(ComposeError, match="structure"):
        check(dataclasses.replace(message, source=cut))


def test_name_with_quotes_is_unchanged() -> None:
    name = 'Ada "the" \\ Countess'
    parsed = message_from_bytes(new_message(asked(from_name=name)).source, policy=policy.default)
    (sender,) = parsed["From"].addresses
    assert (sender.display_name, sender.addr_spec) == (name, ASK.from_address)


def test_long_chain_keeps_its_first_and_last_entry() -> None:
    ids = tuple(f"<{number}@x.example>" for number in range(150))
    kept = chain(dataclasses.replace(ORIGINAL, references=ids))
    assert (kept[0], kept[-1], len(kept)) == (ids[0], "<new@x.example>", 100)


@pytest.mark.parametrize("bad", ["", "no id", "<a@b>\r\nBcc: eve@evil.example", "<a b@x.example>"])
def test_invalid_id_is_not_answered_to(bad: str) -> None:
    original = dataclasses.replace(ORIGINAL, message_id=bad, references=(bad, "<good@x.example>"))
    assert parent(original) == ""
    assert chain(original) == ("<good@x.example>",)


def test_subject_of_255_characters_stays_whole() -> None:
    assert reply_subject("x" * 251) == f"Re: {'x' * 251}"
    assert len(reply_subject("x" * 252)) == 255


@pytest.mark.parametrize("claimed", ["message/rfc822", "multipart/mixed", "text", "a/b\r\nBcc: x"])
def test_type_that_carries_structure_becomes_plain_bytes(claimed: str) -> None:
    assert media_type(claimed) == "application/octet-stream"


@pytest.mark.parametrize(
    "scheme", ["data:text/html,x", "javascript:alert(1)", "vbscript:x", "file:///etc/passwd"]
)
def test_link_of_another_scheme_is_removed(scheme: str) -> None:
    for html in (f'<a href="{scheme}">x</a>', f'<img src="{scheme}" alt="x">'):
        assert scheme.partition(":")[0] not in clean(f"<p>{html}</p>").html


@pytest.mark.parametrize(
    "tag", ["script", "style", "title", "noscript", "template", "svg", "select", "iframe"]
)
def test_invisible_element_is_removed_with_its_content(tag: str) -> None:
    assert "canary" not in clean(f"<p>Hello</p><{tag}>canary</{tag}>").html


@pytest.mark.parametrize("tag", ["script", "title", "template", "svg"])
def test_content_of_an_invisible_element_is_not_seen(tag: str) -> None:
    assert "canary" not in split_hidden(f"<p>Hello</p><{tag}>canary</{tag}>").html


@pytest.mark.parametrize("tag", ["details", "bdo", "ruby"])
def test_element_that_hides_or_turns_is_removed(tag: str) -> None:
    assert f"<{tag}" not in clean(f"<{tag}>words</{tag}>").html


@pytest.mark.parametrize(
    ("family", "kept"),
    [
        ("'MT Extra'", ""),
        ("Bodoni Ornaments, 'Free 3 of 9'", ""),
        ("'MT Extra', Arial", "arial"),
        ("'SEGOE  UI', \\57 ingdings, sans-serif", "'segoe ui', sans-serif"),
        ("微软雅黑, Kruti Dev 010", "微软雅黑"),
    ],
)
def test_only_usual_fonts_of_text_are_kept(family: str, kept: str) -> None:
    of_style = f' style="font-family: {kept}"' if kept else ""
    html = f'<p style="font-family:{family}">not</p>'
    assert clean(html).html.replace("&#x27;", "'") == f"<p{of_style}>not</p>"
    of_tag = f' face="{kept}"' if kept else ""
    if "\\" not in family:
        html = f'<font face="{family}">not</font>'
        assert clean(html).html.replace("&#x27;", "'") == f"<font{of_tag}>not</font>"


@pytest.mark.parametrize(
    "html",
    [
        "<style>@font-face{font-family:Arial;src:local('MT Extra')}</style><p>not</p>",
        "<p style=\"font:16px 'MT Extra'\">not</p>",
        "<p style=\"font-family:var(--x,'MT Extra')\">not</p>",
    ],
)
def test_font_has_no_other_way_into_a_mail(html: str) -> None:
    assert clean(html).html == "<p>not</p>"
