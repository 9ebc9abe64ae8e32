"""Reading the text of mails on a real IMAP server: long, hidden, quoted and malformed content."""

from email.message import EmailMessage

import pytest

from tests.support.people.office import Office, letter, office

__all__ = ["office"]
pytestmark = pytest.mark.django_db(transaction=True)


def test_cut_body_names_where_to_continue(office: Office) -> None:
    text = "".join(f"line {number}\n" for number in range(1000))
    message_id = office.receive(letter(to=office.ada, text=text))

    read, offset = "", 0
    while True:
        page = office.tool("read_email", message_id=message_id, max_chars=3000, offset=offset)
        read += page["body"]
        if "truncated" not in page:
            break
        assert page["truncated"]["total_chars"] == len(text.strip("\n"))
        offset = page["truncated"]["next_offset"]

    assert read == text.strip("\n")


@pytest.mark.fault(53)
@pytest.mark.parametrize(
    ("hidden", "flagged"),
    [
        pytest.param('<div style="display:none">SECRET</div>', True, id="display-none"),
        pytest.param("<p hidden>SECRET</p>", True, id="hidden"),
        pytest.param('<span style="font-size:0px">SECRET</span>', True, id="zero-size"),
        pytest.param('<p style="color:#ffffff">SECRET</p>', True, id="white-on-white"),
        pytest.param('<p style="opacity: 0">SECRET</p>', True, id="opacity"),
        pytest.param('<p style="position:absolute;left:-9999px">SECRET</p>', True, id="off-screen"),
        pytest.param("<p>\U000e0053\U000e0045\U000e0043</p>", True, id="tag-characters"),
        pytest.param(
            '<table bgcolor="#000"><td><p style="color:#fff">Shown</p></table>',
            False,
            id="white-on-dark",
        ),
        pytest.param('<p style="font-size:10px">Shown</p>', False, id="small-but-there"),
        pytest.param(
            '<div style="display:none">&zwnj;&nbsp;&zwnj;</div>', False, id="nothing-hidden"
        ),
        pytest.param("<p>family 👨\u200d👩\u200d👧</p>", False, id="joined-emoji"),
    ],
)
def test_hidden_text_is_removed_and_reported(office: Office, hidden: str, flagged: bool) -> None:
    mail = letter(to=office.ada)
    mail.set_content(f"<html><body><p>Hello</p>{hidden}<p>Bye</p></body></html>", subtype="html")
    message_id = office.receive(mail)

    read = office.tool("read_email", message_id=message_id)

    assert "Hello" in read["body"]
    assert "Bye" in read["body"]
    assert "SECRET" not in read["body"]
    assert read.get("hidden_text_removed", False) is flagged
    if "Shown" in hidden:
        assert "Shown" in read["body"]
    if "👨" in hidden:
        assert "👨\u200d👩\u200d👧" in read["body"]


def test_html_about_signs_is_read_as_it_is_shown(office: Office) -> None:
    mail = letter(to=office.ada)
    mail.set_content(
        "<p>Write &amp;lt;b&amp;gt; for &lt;b&gt;, &amp;amp; for &amp; &#8364;&nbsp;5</p>",
        subtype="html",
    )
    read = office.tool("read_email", message_id=office.receive(mail))
    assert read["body"].split() == "Write &lt;b&gt; for <b>, &amp; for & € 5".split()


def test_quoted_original_and_signature_are_folded(office: Office) -> None:
    quoted = "".join(f"> line {number}\n" for number in range(12))
    text = f"Yes.\n\nYou wrote:\n{quoted}\nIs that fine?\n\n-- \nMira\n"
    message_id = office.receive(letter(to=office.ada, text=text))

    read = office.tool("read_email", message_id=message_id)
    assert read["body"] == "Yes.\n\n[13 quoted lines]\n\nIs that fine?"
    assert read["folded"] == {"quoted": 120, "signature": 8}
    (one,) = office.tool("read_thread", message_id=message_id)["messages"]
    assert (one["body"], one["folded"]) == (read["body"], read["folded"])

    for tool, answer in (("read_email", None), ("read_thread", "messages")):
        whole = office.tool(tool, message_id=message_id, quoted=True)
        whole = whole[answer][0] if answer else whole
        assert whole["body"] == text.strip()
        assert "folded" not in whole


def test_one_bad_mail_does_not_hide_the_rest_of_a_list(office: Office) -> None:
    office.receive(letter(to=office.ada, subject="Good 1"))
    for source in (
        b"Subject: No date\r\n\r\nx\r\n",
        b"Date: the day after\r\nSubject: Odd date\r\n\r\nx\r\n",
        b"From: \xff\xfe\r\nSubject: \xfc\xdf\r\n\r\n\xff\r\n",
        b"Subject: =?utf-8?b?!!!?= =?nonsense?q?x?=\r\n\r\nx\r\n",
        b"\r\nno headers at all\r\n",
        b"Content-Type: multipart/mixed; boundary=x\r\nSubject: No parts\r\n\r\nnothing\r\n",
        b"Content-Type: text/plain; charset=klingon\r\nSubject: Unknown charset\r\n\r\nx\r\n",
        b"To: <<<>>>,,;;\r\nFrom: a@b@c\r\nSubject: Odd addresses\r\n\r\nx\r\n",
    ):
        office.receive(source)
    office.receive(letter(to=office.ada, subject="Good 2"))

    cards = office.tool("list_emails", max_results=50)["emails"]

    assert len(cards) == 10
    assert {"Good 1", "Good 2"} <= {card["subject"] for card in cards}
    for card in cards:
        office.tool("read_email", message_id=card["id"])
        office.tool("read_thread", message_id=card["id"])


def nested(depth: int) -> bytes:
    head = b"".join(
        b"--b%d\r\nContent-Type: multipart/mixed; boundary=b%d\r\n\r\n" % (n, n + 1)
        for n in range(depth)
    )
    return (
        b"Subject: Nested\r\nContent-Type: multipart/mixed; boundary=b0\r\n\r\n" + head + b"x\r\n"
    )


@pytest.mark.fault(54)
@pytest.mark.parametrize(
    "source",
    [
        pytest.param(nested(1000), id="nested-1000-deep"),
        pytest.param(
            b"Content-Type: multipart/mixed; boundary=b\r\n\r\n" + b"--b\r\n\r\nx\r\n" * 3000,
            id="3000-parts",
        ),
        pytest.param(b"Subject: " + b"x " * 2_000_000 + b"\r\n\r\nx\r\n", id="header-of-4-MB"),
        pytest.param(
            b"Content-Type: text/html\r\n\r\n" + b"<div>" * 100_000 + b"x", id="html-nested-100000"
        ),
    ],
)
def test_mail_made_to_break_readers_does_not_break_lists(office: Office, source: bytes) -> None:
    office.receive(letter(to=office.ada, subject="Good"))
    office.imap.deliver(office.ada, source)

    cards = office.tool("list_emails")["emails"]

    assert cards[1]["subject"] == "Good"
    answer = office.api.tool("read_email", message_id=cards[0]["id"])
    assert answer.status_code in (200, 404, 422, 503)
    assert len(answer.content) <= 25_000


def forwarded_as_attachment() -> EmailMessage:
    outer, inner = EmailMessage(), EmailMessage()
    inner["Subject"] = "Inner"
    inner["From"] = "a@b.example"
    inner.set_content("Inside.\n")
    outer["Subject"] = "Outer"
    outer["From"] = "c@d.example"
    outer.set_content("See attached.\n")
    outer.add_attachment(inner)
    return outer


def test_nested_mail_is_an_attachment_and_is_sent_along(office: Office) -> None:
    message_id = office.receive(forwarded_as_attachment())

    (listed,) = office.tool("list_attachments", message_id=message_id)["attachments"]
    assert listed["type"] == "message/rfc822"
    office.approve(
        office.tool("forward_email", message_id=message_id, to=[office.mira], confirm=True)
    )

    (arrived,) = office.inbox(office.mira)
    (file,) = arrived.iter_attachments()
    assert b"Subject: Inner" in file.get_content()
