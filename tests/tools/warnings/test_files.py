"""Attachments that are mentioned and missing, or have a misleading name."""

import io
import zipfile

import pytest

from tests.tools.warnings.messages import codes, message
from tools.mail.message.compose import Attachment
from tools.mail.message.content import Original, build_answer, own_content

PDF, PNG, EXE, OLE = (
    b"%PDF-1.7\n",
    b"\x89PNG\r\n\x1a\n",
    b"MZ\x90\x00\x03\x00",
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
)
TEXT = b"a,b\n1,2\n"


def _zip() -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("word/document.xml", "<w/>")
    return packed.getvalue()


ZIP = _zip()


def file(name: str, content: bytes, type_: str = "application/octet-stream") -> Attachment:
    return Attachment(name=name, type=type_, content=content)


@pytest.mark.parametrize(
    "text",
    [
        "Please find the invoice attached.",
        "Please find your invoice attached.",
        "I have attached the report.",
        "We've enclosed the contract for you to sign.",
        "The offer is attached.",
        "See attachment.",
        "As attached, the numbers for May.",
        "Anbei die Rechnung.",
        "Anbei Ihre Rechnung.",
        "Den Vertrag finden Sie im Anhang.",
        "Die Rechnung ist beigefügt.",
        "In der Anlage erhalten Sie das Angebot.",
        "Siehe Anhang.",
        "请见附件。",
        "报告见附件，谢谢。",
        "随信附上合同。",
        "附件是本月的发票。",
        "請查收附件",
    ],
)
def test_missing_mentioned_attachment_is_reported(text: str) -> None:
    assert codes(message(f"Hello,\n{text}\nAlice")) == ["attachment_missing"]
    assert codes(message(text, attachments=(file("a.pdf", PDF),))) == []


@pytest.mark.parametrize(
    "text",
    [
        "Thank you for your attachment.",
        "I could not open the file you attached.",
        "There was no attachment in it.",
        "I am very attached to this house.",
        "The handle is attached to the door.",
        "I will send the report tomorrow, without attachments.",
        "The report is not attached, it is on the server.",
        "We will have attached sensors by May.",
        "Vielen Dank für Ihren Anhang.",
        "Ihre Mail kam ohne Anhang an.",
        "Die Störung in der Anlage 3 ist behoben.",
        "Die Rechnung ist noch nicht beigefügt.",
        "Der Anhänger ist gelb.",
        "Ich werde die Rechnung als Anhang schicken.",
        "收到您的附件，谢谢。",
        "邮件里没有附件。",
        "您发的附件打不开。",
        "附近有停车场吗？",
    ],
)
def test_harmless_mention_of_a_file_is_no_warning(text: str) -> None:
    assert codes(message(f"Hello,\n{text}\nAlice")) == []


def test_quote_mentions_no_attachment_for_the_reply() -> None:
    original = Original(
        message_id="<a@b.example>",
        references=(),
        from_address="mira@northwind.example",
        from_name="",
        reply_to=(),
        to=(),
        cc=(),
        subject="Hi",
        date=None,
        text="Please find the invoice attached.",
        html=None,
    )
    assert (
        codes(message(kind="reply", content=build_answer(own_content("Thanks!", "text"), original)))
        == []
    )


@pytest.mark.parametrize(
    "attachment",
    [
        file("invoice.pdf", EXE),
        file("invoice.pdf.exe", EXE),
        file("invoice.pdf  .exe", EXE),
        file("holiday.photos", EXE),
        file("Rechnung.docx.js", b"WScript.Echo(1)"),
        file("photo.jpg", PDF),
        file("report.docx", b"<html>"),
        file("发票.pdf", ZIP),
        file("notes.txt", ZIP),
        file("table.xlsx", OLE),
        file("scan", PNG, "application/pdf"),
    ],
    ids=lambda a: a.name,
)
def test_file_with_a_misleading_name_is_reported(attachment: Attachment) -> None:
    assert codes(message(attachments=(attachment,))) == ["attachment_type"]


@pytest.mark.parametrize(
    "attachment",
    [
        file("invoice.pdf", PDF, "application/pdf"),
        file("invoice.pdf", b"\xef\xbb\xbf junk first\n" + PDF),
        file("Rechnung.v2.docx", ZIP),
        file("old.doc", OLE),
        file("export.xls", TEXT),
        file("table.csv", TEXT, "application/vnd.ms-excel"),
        file("发票.png", PNG, "image/png"),
        file("letter.txt", b"MZ stands for two letters"),
        file("archive.tar.gz", b"\x1f\x8b\x08"),
        file("model.gguf", b"GGUF\x00"),
        file("empty.pdf", b""),
        file("no ending", TEXT, "text/plain"),
        file("v1.2 notes", TEXT),
    ],
    ids=lambda a: a.name,
)
def test_file_with_a_true_or_unclear_type_is_no_warning(attachment: Attachment) -> None:
    assert codes(message(attachments=(attachment,))) == []
