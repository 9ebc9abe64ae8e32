"""A person opens the files of a mail before it leaves: drawn, as text, or as a download."""

import base64
import html
import io
import re
import tracemalloc
import zipfile
from contextlib import ExitStack
from uuid import UUID

import pytest
from django.test import Client
from docx import Document
from PIL import Image
from pypdf import PdfWriter
from pypdf.generic import (
    DictionaryObject,
    NameObject,
    NumberObject,
    RectangleObject,
    TextStringObject,
)

from accounts.access import provider_calls
from accounts.models import Mailbox, User
from approvals.models import AuditEvent, PendingAction
from tests.approvals.review_pages import text_of
from tests.conftest import Api, Reviewer
from tests.support.concurrently import all_at_once
from tests.support.people.browser import set_rules
from tests.support.people.office import letter
from tests.support.servers.memory import MemoryServer
from tools.mail.message.extract import WORD
from tools.mail.parsers import FILES, pool
from tools.surfaces import file_views

pytestmark = pytest.mark.django_db(transaction=True)


def written(form: str, *, pages: int = 1) -> bytes:
    sheet, file = Image.new("RGB", (300, 400), "red"), io.BytesIO()
    # Formats of animations do not keep the same picture twice.
    others = [Image.new("RGB", (300, 400), (255 - page, 0, 0)) for page in range(1, pages)]
    more = {"save_all": True, "append_images": others} if others else {}
    sheet.save(file, form, **more)
    return file.getvalue()


def propose(api: Api, name: str, kind: str, content: bytes) -> tuple[str, str]:
    """Return the action's id and the address of its only file."""
    given = {"name": name, "type": kind, "content_base64": base64.b64encode(content).decode()}
    action = api.propose(attachments=[given])
    (file,) = PendingAction.objects.get(pk=action).current.payload["attachments"]
    return action, f"/actions/{action}/files/{file['sha256']}/"


@pytest.mark.parametrize(("form", "pages"), [("PDF", 3), ("JPEG", 1), ("TIFF", 2), ("GIF", 2)])
def test_pages_of_a_file_are_drawn_anew(
    api: Api, reviewer: Reviewer, form: str, pages: int
) -> None:
    content = written(form, pages=pages)
    action, address = propose(api, "plan", "application/octet-stream", content)
    assert "not opened by you" in text_of(reviewer.page(action))

    page = text_of(reviewer.client.get(address))

    for number in range(1, pages + 1):
        assert f'src="{address}{number}.png"' in page
        picture = reviewer.client.get(f"{address}{number}.png")
        assert picture["Content-Type"] == "image/png"
        drawn = Image.open(io.BytesIO(picture.content)).convert("RGB")
        red, green, blue = drawn.getpixel((drawn.width // 2, drawn.height // 2))  # type: ignore[misc]
        assert red > 200 > 60 > green + blue
    assert reviewer.client.get(f"{address}{pages + 1}.png").status_code == 404
    assert ">opened by you" in text_of(reviewer.page(action)).replace("\n", "").replace("  ", "")
    assert [
        (event.actor, str(event.action_id), event.data["sha256"])
        for event in AuditEvent.objects.filter(event="file_opened")
    ] == [(f"user:{reviewer.user.pk}", action, address.split("/")[-2])]


@pytest.mark.parametrize(
    ("name", "kind", "content", "said"),
    [
        ("a.html", "text/html", b"<script>alert(1)</script><p>Hello Ada</p>", "Hello Ada"),
        ("a.csv", "text/csv", b"name,sum\r\nMira,<b>5", "Mira\t&lt;b&gt;5"),
        ("a.png", "image/png", b"\x89PNG\r\n\x1a\n broken", "damaged or too large"),
        ("a.pdf", "text/plain", b"%PDF-1.7 broken", "damaged or too large"),
        ("a.docx", WORD, b"%PDF-1.7 another document", "No preview"),
        ("a.pdf", "text/html", b"%PDF-1.7 another document", "No preview"),
        ("a.txt", "text/plain", b"BMW or Volvo?", "BMW or Volvo?"),
        ("a.zip", "application/zip", b"PK\x03\x04", "No preview for this type of file"),
        ("a.svg", "image/svg+xml", b"<svg onload='alert(1)'/>", "No preview"),
    ],
)
def test_foreign_file_is_shown_without_running(
    api: Api, reviewer: Reviewer, name: str, kind: str, content: bytes, said: str
) -> None:
    _, address = propose(api, name, kind, content)
    page = text_of(reviewer.client.get(address))
    assert said in page
    assert "alert(1)" not in page

    file = reviewer.client.get(f"{address}download/")
    assert file.content == content
    assert file["Content-Type"] == "application/octet-stream"
    assert file["Content-Disposition"] == f'attachment; filename="{name}"'
    assert file["X-Content-Type-Options"] == "nosniff"
    assert "sandbox" in file["Content-Security-Policy"]


def pdf_with(**more: dict[str, str]) -> bytes:
    writer, file = PdfWriter(io.BytesIO(written("PDF"))), io.BytesIO()
    for name, inside in more.items():
        names = {NameObject(f"/{each}"): TextStringObject(word) for each, word in inside.items()}
        writer.root_object[NameObject(f"/{name}")] = DictionaryObject(names)
    writer.write(file)
    return file.getvalue()


def commented_pdf(subtype: str, flags: int = 0) -> bytes:
    writer, file = PdfWriter(io.BytesIO(written("PDF"))), io.BytesIO()
    note = {"/Subtype": NameObject(subtype), "/F": NumberObject(flags)}
    writer.add_annotation(0, {"/Rect": RectangleObject((0, 0, 9, 9)), **note})
    writer.write(file)
    return file.getvalue()


PAGE, PDF, TEXT = ("a.html", "text/html"), ("a.pdf", "application/pdf"), ("a.txt", "text/plain")


@pytest.mark.parametrize(
    ("file", "content", "warned"),
    [
        (PAGE, b"<p>Hello</p><script>document.body.innerHTML = '4711'</script>", True),
        (PAGE, b"<p>Hello</p><style>p::after { content: '4711' }</style>", True),
        (PAGE, b"<p>Hello</p><svg><text>4711</text></svg>", True),
        (PAGE, b"<p>Hello</p><p>Ada</p>", False),
        (PDF, pdf_with(AcroForm={"XFA": "<template>4711</template>"}), True),
        (PDF, pdf_with(OpenAction={"JS": "this.getField('sum').value = 4711"}), True),
        (PDF, pdf_with(OCProperties={}), True),
        (PDF, pdf_with(Names={"EmbeddedFiles": "4711.pdf"}), True),
        (PDF, commented_pdf("/Text"), True),
        (PDF, commented_pdf("/Link", flags=36), True),
        (PDF, commented_pdf("/Link"), False),
        (("plan", "text/plain"), pdf_with(Collection={}), True),
        (PDF, pdf_with(AcroForm={}), False),
        (TEXT, b"Hello", False),
    ],
)
def test_file_that_may_show_more_than_its_page_says_so(
    api: Api, reviewer: Reviewer, file: tuple[str, str], content: bytes, warned: bool
) -> None:
    _, address = propose(api, *file, content)
    page = text_of(reviewer.client.get(address))
    assert ".png" in page if content.startswith(b"%PDF") else "Hello" in page
    assert ("Not everything in this file can be shown here" in page) is warned


def test_file_with_two_documents_is_drawn_as_neither(api: Api, reviewer: Reviewer) -> None:
    both = io.BytesIO()
    with zipfile.ZipFile(both, "w") as packed:
        packed.writestr("a.pdf", written("PDF"))
    document = Document()
    document.add_paragraph("We pay 4711.")
    document.sections[0].footer.paragraphs[0].text = "Or 4712."
    with zipfile.ZipFile(both, "a") as packed:
        word = io.BytesIO()
        document.save(word)
        with zipfile.ZipFile(word) as parts:
            for part in parts.namelist():
                packed.writestr(part, parts.read(part))
    action, address = propose(api, "offer.docx", WORD, both.getvalue())

    page = text_of(reviewer.client.get(address))

    assert "We pay 4711." in page
    assert "Or 4712." in page
    assert "Not everything in this file can be shown here" in page
    assert reviewer.client.get(f"{address}1.png").status_code == 404
    assert "it is a PDF document, too" in text_of(reviewer.page(action))


def test_file_that_no_process_can_read_now_says_so(
    api: Api, reviewer: Reviewer, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, address = propose(api, "a.pdf", "application/pdf", written("PDF"))
    monkeypatch.setattr(pool, "WAIT_SECONDS", 0)
    with ExitStack() as held:
        for _ in range(FILES._limits.processes):
            held.enter_context(FILES._turns.take(None))
        answers = [reviewer.client.get(address + page) for page in ("", "1.png")]
    for answer in answers:
        assert (answer.status_code, answer["Retry-After"]) == (503, str(pool.RETRY_SECONDS))
    assert "The file cannot be read now" in text_of(answers[0])
    assert not AuditEvent.objects.filter(event="file_opened").exists()


def test_files_that_a_person_reads_at_once_are_counted(
    api: Api, reviewer: Reviewer, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, address = propose(api, "a.pdf", "application/pdf", written("PDF"))
    monkeypatch.setattr(provider_calls, "AT_ONCE", 1)
    with provider_calls.limit_waiting(alice.pk):
        answers = [reviewer.client.get(address + page) for page in ("", "1.png")]
    assert [each.status_code for each in answers] == [503, 503]
    assert reviewer.client.get(address).status_code == 200


def test_pictures_of_a_large_mail_are_read_one_after_the_other(
    api: Api, alice: User, reviewer: Reviewer
) -> None:
    large = written("PDF") + b"%" * 1_300_000
    files = [
        {"name": f"{n}.pdf", "content_base64": base64.b64encode(large + bytes([n])).decode()}
        for n in range(3)
    ]
    action = api.propose(attachments=files)
    file = PendingAction.objects.get(pk=action).current.payload["attachments"][0]
    address = f"/actions/{action}/files/{file['sha256']}/1.png"
    assert reviewer.client.get(address).status_code == 200
    windows = [Reviewer.signed_in(alice).client for _ in range(2)]
    tracemalloc.start()
    all_at_once([lambda window=each: window.get(address) for each in windows])  # type: ignore[misc]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 30 * 1024**2


def test_slow_files_of_one_person_leave_room_for_others(
    api: Api, reviewer: Reviewer, bob: User
) -> None:
    _, address = propose(api, "a.txt", "text/plain", b"Hello Bob")
    with file_views._reading.take(reviewer.user.pk):
        assert Reviewer.signed_in(bob).client.get(f"{address}download/").content == b"Hello Bob"


def test_rule_wants_each_file_opened_by_the_approver(
    api: Api, mailbox: Mailbox, alice: User, bob: User
) -> None:
    set_rules(alice, mailbox, files_opened=True)
    action, address = propose(api, "a.txt", "text/plain", b"Thursday")
    approver = Reviewer.signed_in(bob)
    Reviewer.signed_in(alice).client.get(address)  # counts for herself only

    refused = approver.decide(action, "approve")

    assert refused.status_code == 409
    assert "Open each of its files first" in text_of(refused)
    assert approver.client.get(f"{address}download/").status_code == 200
    assert approver.decide(action, "approve").status_code == 302


def test_refused_download_does_not_count_as_opened(api: Api, reviewer: Reviewer) -> None:
    _, address = propose(api, "a.bin", "application/octet-stream", bytes(3 * 1024 * 1024))
    with provider_calls.ANSWERS.hold(reviewer.user.pk) as note:
        note(94 * 1024 * 1024)
        assert reviewer.client.get(f"{address}download/").status_code == 503
    assert not AuditEvent.objects.filter(event="file_opened").exists()
    assert reviewer.client.get(f"{address}download/").status_code == 200
    assert AuditEvent.objects.filter(event="file_opened").exists()


def test_file_that_nobody_looks_at_is_not_opened(api: Api, reviewer: Reviewer) -> None:
    action, address = propose(api, "a.txt", "text/plain", b"Thursday")
    edit = reviewer.client.get(f"/actions/{action}/edit/")
    policy = edit["Content-Security-Policy"]
    assert "img-src data: http://testserver/static/;" in f"{policy};"
    seen_by_nobody: list[dict[str, str]] = [
        {"Sec-Fetch-Dest": "image", "Sec-Fetch-Site": "same-origin"},
        {"Sec-Fetch-Dest": "document", "Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Dest": "document", "Sec-Purpose": "prefetch;prerender"},
    ]
    for page in (address, f"{address}download/"):
        for headers in seen_by_nobody:
            assert reviewer.client.get(page, headers=headers).status_code == 200
        reviewer.client.head(page)
    assert not AuditEvent.objects.filter(event="file_opened").exists()
    link = {"Sec-Fetch-Dest": "document", "Sec-Fetch-Site": "same-origin"}
    for page in (address, f"{address}download/"):
        reviewer.client.get(page, headers=link)
    assert AuditEvent.objects.filter(event="file_opened").count() == 1  # only once


def test_file_is_hidden_from_strangers_and_from_other_hashes(
    api: Api, reviewer: Reviewer, charlie: User
) -> None:
    _, address = propose(api, "a.txt", "text/plain", b"Thursday")
    for page in ("", "download/", "1.png"):
        assert Reviewer.signed_in(charlie).client.get(address + page).status_code == 404
        other = address.replace(address.split("/")[-2], "0" * 64)
        assert reviewer.client.get(other + page).status_code == 404
    assert reviewer.client.get(f"{address}1.png").status_code == 404
    assert reviewer.client.post(address).status_code in (403, 405)


def test_files_of_the_answered_mail_can_be_opened(
    api: Api, reviewer: Reviewer, mailbox: Mailbox, server: MemoryServer, charlie: User
) -> None:
    question = letter(to=mailbox.address, text="Is this plan right?")
    pdf = written("PDF", pages=2)
    question.add_attachment(pdf, maintype="application", subtype="pdf", filename="plan & map.pdf")
    server.deliver(mailbox.address, question.as_bytes())
    original = api.tool("list_emails").json()["emails"][0]["id"]
    answer = api.tool("reply_email", message_id=original, comment="It is.", confirm=True).json()
    action = answer["action"]["id"]

    beside = text_of(reviewer.client.get(f"/actions/{action}/conversation/?part=1"))
    (link,) = re.findall(r'href="(/actions/[^"]+/received/[^"]+)"', beside)
    link = html.unescape(link)
    page = text_of(reviewer.client.get(link))

    assert "plan &amp; map.pdf" in page
    first, second = map(html.unescape, re.findall(r'src="([^"]+\.png[^"]*)"', page))
    assert first != second
    assert reviewer.client.get(second).headers["Content-Type"] == "image/png"
    (whole,) = map(html.unescape, re.findall(r'href="([^"]+/download/[^"]*)"', page))
    file = reviewer.client.get(whole)
    assert file.content == pdf
    assert "sandbox" in file["Content-Security-Policy"]
    assert not AuditEvent.objects.filter(event="file_opened").exists()
    for address in (link, second, whole):
        assert Reviewer.signed_in(charlie).client.get(address).status_code == 404
        assert reviewer.client.get(address.replace(action, str(UUID(int=0)))).status_code == 404
    assert (
        reviewer.client.get(f"/actions/{action}/received/?mail=none&attachment=2").status_code
        == 404
    )
    Mailbox.objects.update(status=Mailbox.Status.NEEDS_REAUTH)
    for address in (link, second, whole):
        answer = reviewer.client.get(address)
        assert answer.status_code == 424
        assert "must be reconnected" in text_of(answer)
        assert f'href="/actions/{action}/"' in text_of(answer)


def test_link_is_not_used_up_by_a_server_that_is_away(
    api: Api, mailbox: Mailbox, server: MemoryServer
) -> None:
    mail = letter(to=mailbox.address)
    mail.add_attachment(b"abc", maintype="application", subtype="pdf", filename="a.pdf")
    server.deliver(mailbox.address, mail.as_bytes())
    named = {"message_id": api.tool("list_emails").json()["emails"][0]["id"]}
    (file,) = api.tool("list_attachments", **named).json()["attachments"]
    named["attachment_id"] = file["id"]
    link = api.tool("download_attachment", **named, **{"as": "link"}).json()["url"]
    path = "/files/" + link.rpartition("/files/")[2]

    server.reachable = False
    assert Client().get(path).status_code == 503
    server.reachable = True
    assert Client().get(path).content == b"abc"
    assert Client().get(path).status_code == 404
