"""Reading attachments on a real IMAP server: their text, their bytes and their links."""

import base64
import io
import zipfile
from typing import Any

import pytest
from django.test import Client
from docx import Document
from openpyxl import Workbook

from tests.support.people.office import Office, letter, office

__all__ = ["office"]
pytestmark = pytest.mark.django_db(transaction=True)


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
    assert listed.get("original_name", listed["name"]) == name
    return {"message_id": message_id, "attachment_id": listed["id"]}


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        pytest.param("a.docx", word(), "Word says hello", id="word"),
        pytest.param("a.xlsx", excel(), "Pallets\t12", id="excel"),
        pytest.param("a.pdf", pdf(), "PDF says hello", id="pdf"),
        pytest.param("a.csv", b"a;b\n1,2\n", "1\t2", id="csv"),
        pytest.param(
            "a.html",
            b"<p>Hi <a href='https://x.example/'>you</a></p><script>x</script>",
            "Hi you <https://x.example/>",
            id="html",
        ),
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
        pytest.param("a.docx", None, id="zip-bomb"),
        pytest.param("a.pdf", b"%PDF-1.4 broken", id="broken-pdf"),
        pytest.param("a.xlsx", b"PK\x03\x04 broken", id="broken-excel"),
        pytest.param("a.bin", b"\0\1\2", id="no-text-in-it"),
    ],
)
def test_file_without_readable_text_is_refused_with_advice(
    office: Office, name: str, content: bytes | None
) -> None:
    # The bomb takes a second to make: not in each process that collects the tests.
    named = attached(office, name, bomb() if content is None else content)
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
