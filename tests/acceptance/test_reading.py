"""Reading a mailbox on a real IMAP server: folders, searches, conversations, attachments, and
malformed mail.
"""

import base64
import io
import zipfile
from email.message import EmailMessage
from typing import Any

import pytest
from django.test import Client
from docx import Document
from openpyxl import Workbook

from tests.dovecot import dovecot
from tests.office import Office, letter, office

__all__ = ["dovecot", "office"]
pytestmark = pytest.mark.django_db(transaction=True)


def subjects(result: dict[str, Any]) -> list[str]:
    return [card["subject"] for card in result["emails"]]


def test_folders_are_named_with_role_and_counts(office: Office) -> None:
    office.receive(letter(to=office.ada))
    office.receive(letter(to=office.ada), unread=False)

    folders = {folder["name"]: folder for folder in office.tool("list_folders")["folders"]}

    assert folders["INBOX"] == {
        "id": "INBOX",
        "name": "INBOX",
        "role": "inbox",
        "unread": 1,
        "total": 2,
    }
    assert folders["Drafts"]["role"] == "drafts"
    assert folders["Sent Messages"]["role"] == "sent"


def test_read_needs_three_queries_at_most(
    office: Office, django_assert_max_num_queries: Any
) -> None:
    office.receive(letter(to=office.ada))
    office.tool("list_emails")  # the first use of the token is recorded, once a minute
    with django_assert_max_num_queries(3):
        assert office.tool("list_emails")["emails"]


@pytest.fixture
def full(office: Office) -> Office:
    """Return an inbox with mail to search for."""
    with_file = letter(to=office.ada, subject="Invoice with file", text="Please pay.\n")
    with_file.add_attachment(b"%PDF", "application", "pdf", filename="invoice.pdf")
    office.receive(
        letter(to=office.ada, subject="Invoice 1", text="Pay the first one.\n"), unread=False
    )
    office.receive(
        letter(
            to=office.ada,
            subject="Grüße aus Zürich",
            sender="Zoë <zoe@alps.example>",
            text="Schnee!\n",
        )
    )
    office.receive(with_file)
    return office


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        pytest.param({"subject": "invoice"}, ["Invoice with file", "Invoice 1"], id="subject"),
        pytest.param({"from": "zoe@alps.example"}, ["Grüße aus Zürich"], id="from"),
        pytest.param({"text": "Schnee"}, ["Grüße aus Zürich"], id="text"),
        pytest.param({"subject": "Zürich"}, ["Grüße aus Zürich"], id="non-ascii"),
        pytest.param({"unread": False}, ["Invoice 1"], id="read"),
        pytest.param(
            {"unread": True, "subject": "invoice"}, ["Invoice with file"], id="unread-and-subject"
        ),
        pytest.param({"has_attachments": True}, ["Invoice with file"], id="with-attachments"),
        pytest.param(
            {"has_attachments": False, "subject": "invoice"},
            ["Invoice 1"],
            id="without-attachments",
        ),
        pytest.param(
            {"newer_than_days": 1},
            ["Invoice with file", "Grüße aus Zürich", "Invoice 1"],
            id="newer",
        ),
        pytest.param({"before": "2020-01-01"}, [], id="before"),
        pytest.param(
            {"since": "2020-01-01", "max_results": 1}, ["Invoice with file"], id="since-first-page"
        ),
        pytest.param({"query": "first pay"}, ["Invoice 1"], id="plain-words"),
        pytest.param(
            {"query": 'FROM mira UNSEEN SUBJECT "with file"'},
            ["Invoice with file"],
            id="search-keys",
        ),
        pytest.param(
            {"query": "OR FROM zoe SUBJECT 1"}, ["Grüße aus Zürich", "Invoice 1"], id="or"
        ),
        pytest.param({"query": "NOT (SUBJECT invoice)"}, ["Grüße aus Zürich"], id="not"),
        pytest.param(
            {"query": "SINCE 1-Jan-2020 SMALLER 100000 FROM zoe"},
            ["Grüße aus Zürich"],
            id="dates-sizes",
        ),
        pytest.param({"query": 'it"s'}, [], id="a-lone-quote"),
    ],
)
def test_search_finds_matches_newest_first(
    full: Office, asked: dict[str, Any], found: list[str]
) -> None:
    result = full.tool("search_emails", **asked)
    assert subjects(result) == found
    assert ("hint" in result) is (not found)


@pytest.mark.fault(51)
@pytest.mark.parametrize(
    "asked",
    [
        pytest.param({"query": "FROM"}, id="key-without-value"),
        pytest.param({"query": "SINCE yesterday"}, id="no-date"),
        pytest.param({"query": "ALL FETCH 1 BODY"}, id="not-a-search-key"),
        pytest.param({"query": "FROM x\r\nA1 LOGOUT"}, id="newline"),
        pytest.param({"label_ids": ["INBOX"]}, id="labels-on-imap"),
        pytest.param({"folder": "No such folder"}, id="unknown-folder"),
        pytest.param({"page_token": "x"}, id="foreign-page-token"),
        pytest.param({"query": "(" * 30 + "ALL"}, id="nested-too-deep"),
        pytest.param({"since": "soon"}, id="no-day"),
        pytest.param({"colour": "red"}, id="unknown-parameter"),
    ],
)
def test_impossible_search_is_refused_with_a_next_step(
    office: Office, asked: dict[str, Any]
) -> None:
    problem = office.refused("search_emails", **asked)
    assert problem["code"] in ("invalid_input", "not_found")
    assert len(problem["detail"]) > 20


def test_search_pages_neither_overlap_nor_leave_gaps(office: Office) -> None:
    for number in range(7):
        office.receive(letter(to=office.ada, subject=f"Order {number}"))
        office.receive(letter(to=office.ada, subject="Noise"))

    seen, token = [], None
    while True:
        page = office.tool(
            "search_emails",
            subject="order",
            max_results=3,
            **({"page_token": token} if token else {}),
        )
        seen += subjects(page)
        token = page.get("next_page_token")
        if not token:
            break

    assert seen == [f"Order {number}" for number in range(6, -1, -1)]


def test_thread_is_found_by_references_across_folders(office: Office) -> None:
    first = letter(to=office.ada, subject="Crane", text="One.\n")
    message_id = office.receive(first)
    office.imap.deliver(
        office.ada,
        letter(
            to="mira@northwind.example",
            sender=office.ada,
            subject="Re: Crane",
            text="Two.\n",
            References=first["Message-ID"],
            In_Reply_To=first["Message-ID"],
            message_id="<two@lovelace.example>",
        ).as_bytes(),
        folder="Sent Messages",
    )
    third = letter(
        to=office.ada,
        subject="Re: Crane",
        text="Three.\n",
        References=f"{first['Message-ID']} <two@lovelace.example>",
    )
    third_id = office.receive(third)
    office.receive(letter(to=office.ada, subject="Crane", text="Another matter.\n"))

    for start in (message_id, third_id):
        messages = office.tool("read_thread", message_id=start)["messages"]
        assert [message["body"].strip() for message in messages] == ["One.", "Two.", "Three."]


def test_long_thread_is_cut_and_keeps_the_newest(office: Office) -> None:
    first = letter(to=office.ada, text="old " * 500)
    office.receive(first)
    newest = office.receive(
        letter(to=office.ada, text="new " * 500, References=first["Message-ID"])
    )

    thread = office.tool("read_thread", message_id=newest, max_chars=2100)

    assert thread["truncated"] is True
    assert len(thread["messages"][1]["body"]) > 1900
    assert sum(len(message["body"]) for message in thread["messages"]) <= 2100


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


def test_quoted_lines_are_folded(office: Office) -> None:
    quoted = "".join(f"> line {number}\n" for number in range(12))
    message_id = office.receive(letter(to=office.ada, text=f"Yes.\n\nYou wrote:\n{quoted}\nMira\n"))

    assert (
        office.tool("read_email", message_id=message_id)["body"]
        == "Yes.\n\nYou wrote:\n[12 quoted lines]\n\nMira"
    )


def word() -> bytes:
    document, stream = Document(), io.BytesIO()
    document.add_paragraph("Word says hello")
    document.save(stream)
    return stream.getvalue()


def excel() -> bytes:
    book, stream = Workbook(), io.BytesIO()
    sheet = book.active
    assert sheet is not None
    sheet.append(["Pallets", 12])
    book.save(stream)
    return stream.getvalue()


def pdf() -> bytes:
    content = b"BT /F1 24 Tf 72 700 Td (PDF says hello) Tj ET"
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R "
        b"/Resources << /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(content), content),
    ]
    body, places = b"%PDF-1.4\n", []
    for number, each in enumerate(objects, start=1):
        places.append(len(body))
        body += b"%d 0 obj\n%s\nendobj\n" % (number, each)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    return (
        body
        + b"xref\n0 5\n0000000000 65535 f \n"
        + table
        + b"trailer << /Root 1 0 R /Size 5 >>\nstartxref\n%d\n%%%%EOF" % len(body)
    )


def bomb() -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(3):
            archive.writestr(f"word/{number}.xml", b"\0" * (60 * 1024 * 1024))
    return stream.getvalue()


def attached(
    office: Office, name: str, content: bytes, media_type: str = "application/octet-stream"
) -> dict[str, Any]:
    """Deliver a mail with this attachment to Ada, and return the arguments that name it."""
    mail = letter(to=office.ada)
    maintype, subtype = media_type.split("/")
    mail.add_attachment(content, maintype, subtype, filename=name)
    message_id = office.receive(mail)
    (listed,) = office.tool("list_attachments", message_id=message_id)["attachments"]
    assert listed["name"] == name
    return {"message_id": message_id, "attachment_id": listed["id"]}


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        pytest.param("a.docx", word(), "Word says hello", id="word"),
        pytest.param("a.xlsx", excel(), "Pallets\t12", id="excel"),
        pytest.param("a.pdf", pdf(), "PDF says hello", id="pdf"),
        pytest.param("a.csv", b"a;b\n1,2\n", "1\t2", id="csv"),
        pytest.param("a.html", b"<p>Hi <b>you</b></p><script>x</script>", "Hi you", id="html"),
        pytest.param("a.txt", "Zoë".encode("windows-1252"), "Zoë", id="text-in-another-charset"),
    ],
)
def test_text_of_an_attachment_is_extracted(
    office: Office, name: str, content: bytes, text: str
) -> None:
    result = office.tool("download_attachment", **attached(office, name, content))
    assert text in result["text"]
    assert result["size"] == len(content)


@pytest.mark.fault(54)
@pytest.mark.parametrize(
    ("name", "content"),
    [
        pytest.param("a.docx", bomb(), id="zip-bomb"),
        pytest.param("a.pdf", b"%PDF-1.4 broken", id="broken-pdf"),
        pytest.param("a.xlsx", b"PK\x03\x04 broken", id="broken-excel"),
        pytest.param("a.bin", b"\0\1\2", id="no-text-in-it"),
    ],
)
def test_file_without_readable_text_is_refused_with_advice(
    office: Office, name: str, content: bytes
) -> None:
    named = attached(office, name, content)
    assert office.refused("download_attachment", **named)["code"] == "invalid_input"
    assert "url" in office.tool("download_attachment", **named, **{"as": "link"})


def test_small_files_come_in_base64_and_large_ones_do_not(office: Office) -> None:
    small = attached(office, "small.bin", bytes(range(256)))
    large = attached(office, "large.bin", b"x" * 65_537)

    content = office.tool("download_attachment", **small, **{"as": "base64"})["content_base64"]
    assert base64.b64decode(content) == bytes(range(256))
    assert office.refused("download_attachment", **large, **{"as": "base64"})["code"] == "too_large"


def test_link_gives_the_file_once_and_never_again(office: Office) -> None:
    named = attached(office, "<b>Größe</b>.html", b"<script>alert(1)</script>")
    link = office.tool("download_attachment", **named, **{"as": "link"})
    path = link["url"].partition("example")[2] or "/" + link["url"].split("/", 3)[3]

    assert Client().head(path).status_code == 405
    answer = Client().get(path)
    again = Client().get(path)

    assert answer.content == b"<script>alert(1)</script>"
    assert answer["Content-Disposition"].startswith("attachment;")
    assert answer["Content-Type"] == "application/octet-stream"
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert "sandbox" in answer["Content-Security-Policy"]
    assert again.status_code == 404


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
    assert [cards[0]["subject"], cards[-1]["subject"]] == ["Good 2", "Good 1"]
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


@pytest.mark.goal("P5")
def test_cards_and_newsletter_stay_in_budget(office: Office) -> None:
    for number in range(10):
        sender = "A Rather Long Name of a Company <newsletter@long-company-name.example>"
        office.receive(
            letter(
                to=office.ada,
                subject=f"Number {number} " + "long " * 60,
                sender=sender,
                text="lorem " * 500,
            )
        )
    page = letter(to=office.ada)
    page.set_content(
        "<p>" + "offer <a href='https://x.example'>now</a> " * 5000 + "</p>", subtype="html"
    )

    listed = office.api.tool("list_emails", max_results=10)
    read = office.tool("read_email", message_id=office.receive(page))

    assert len(listed.content) <= 3_000
    assert all(card["snippet"] for card in listed.json()["emails"])
    assert len(read["body"]) <= 4_000
    assert read["truncated"]["next_offset"] == len(read["body"])
