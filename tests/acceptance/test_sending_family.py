"""Replies, forwards and drafts that are sent: from the tool to the provider's mailbox."""

import base64
from datetime import timedelta
from email import policy
from email.message import EmailMessage
from io import BytesIO
from typing import Any

import pytest
from django.utils import timezone

from approvals.models import PendingAction
from tests.approvals.revisions import edit
from tests.conftest import HELLO
from tests.support.people.office import SENT, Office, letter, office
from tests.support.work import work

__all__ = ["office"]
pytestmark = pytest.mark.django_db(transaction=True)

PDF = b"%PDF-1.4\n" + bytes(range(256)) * 40
PART_HEADERS = {
    "content-type",
    "content-transfer-encoding",
    "content-disposition",
    "mime-version",
}
PNG = b"\x89PNG\r\n\x1a\n" + b"pixels" * 30


def test_reply_preview_shows_the_original_and_stores_nothing(office: Office) -> None:
    message_id = office.receive(letter(to=office.ada))

    preview = office.tool("reply_email", message_id=message_id, comment="On Thursday.")["preview"]

    assert preview["kind"] == "reply"
    assert preview["to"] == ["mira@northwind.example"]
    assert preview["original"] == {
        "subject": "Delivery on Thursday?",
        "from": "mira@northwind.example",
    }
    assert preview["text"].endswith("Nothing has been sent.")
    assert not PendingAction.objects.exists()


def test_preview_names_what_is_unusual_about_the_sending(office: Office) -> None:
    leave = (timezone.now() + timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    usual = office.tool("send_email", **HELLO)["preview"]
    unusual = office.tool(
        "send_email", **HELLO, importance="high", send_at=leave, save_to_sent_items=False
    )["preview"]

    assert [usual[name] for name in ("importance", "save_to_sent_items")] == ["normal", True]
    assert usual["text"].endswith("”. Nothing has been sent.")
    assert unusual["text"].endswith(
        f"”. Importance: high. It leaves at {leave} at the earliest. No copy is kept in Sent. Nothing has been sent."
    )


def test_reply_to_all_preview_names_everybody(office: Office) -> None:
    message_id = office.receive(
        letter(to=f"{office.ada}, jo@northwind.example", Cc="sam@northwind.example")
    )

    preview = office.tool("reply_email", message_id=message_id, comment="Hi", reply_all=True)[
        "preview"
    ]

    assert preview["cc"] == ["jo@northwind.example", "sam@northwind.example"]
    assert preview["original"]["to"] == [office.ada, "jo@northwind.example"]
    assert preview["original"]["cc"] == ["sam@northwind.example"]


def test_reply_arrives_in_its_thread_and_marks_the_original(office: Office) -> None:
    original = letter(to=office.ada, sender=f"Mira <{office.mira}>", References="<first@x.example>")
    message_id = office.receive(original)

    action = office.approve(
        office.tool("reply_email", message_id=message_id, comment="On Thursday.\nAda", confirm=True)
    )

    assert action["state"] == "succeeded"
    (arrived,) = office.inbox(office.mira)
    (copy,) = office.folder(SENT)
    for message in (arrived, copy):
        assert message["Subject"] == "Re: Delivery on Thursday?"
        assert message["In-Reply-To"] == original["Message-ID"]
        assert str(message["References"]).split() == ["<first@x.example>", original["Message-ID"]]
        assert message.get_content().startswith("On Thursday.\nAda\n\nOn Mon, 02 Nov 2026")
        assert "> When do you come?" in message.get_content()
    client = office.imap.signed_in(office.ada)
    client.select_folder("INBOX")
    assert rb"\Answered" in client.get_flags([1])[1]


def test_reply_to_html_quotes_html_without_dangerous_parts(office: Office) -> None:
    original = letter(to=office.ada, sender=office.mira)
    original.add_alternative(
        "<p>When do <b>you</b> come?</p><script>alert(1)</script>", subtype="html"
    )
    message_id = office.receive(original)

    office.approve(
        office.tool("reply_email", message_id=message_id, comment="Soon & safe", confirm=True)
    )

    (arrived,) = office.inbox(office.mira)
    page = arrived.get_body(("html",))
    assert page is not None
    html = page.get_content()
    assert "<p>Soon &amp; safe</p>" in html
    assert "<blockquote><p>When do <b>you</b> come?</p>" in html
    assert "script" not in html


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [("reply_email", {"comment": "x"}), ("forward_email", {"to": ["jo@northwind.example"]})],
)
def test_unknown_original_is_not_found(
    office: Office, tool: str, arguments: dict[str, Any]
) -> None:
    message_id = office.receive(letter(to=office.ada))
    client = office.imap.signed_in(office.ada)
    client.select_folder("INBOX")
    client.delete_messages([1])
    client.expunge()

    for known in ("nonsense", message_id):
        assert office.refused(tool, message_id=known, **arguments)["code"] == "not_found"


def test_same_key_never_replies_twice(office: Office) -> None:
    message_id = office.receive(letter(to=office.ada, sender=office.mira))
    ask = {"message_id": message_id, "comment": "Once.", "confirm": True, "idempotency_key": "k"}

    first = office.tool("reply_email", **ask)
    again = office.tool("reply_email", **ask)
    office.approve(first)
    office.tool("reply_email", **ask)
    work()

    assert again["action"]["id"] == first["action"]["id"]
    assert len(office.inbox(office.mira)) == 1


@pytest.mark.parametrize("comment", ["", None])
def test_reply_needs_a_comment(office: Office, comment: str | None) -> None:
    assert office.refused("reply_email", message_id="x", comment=comment)["code"] == "invalid_input"


def with_attachments(office: Office) -> EmailMessage:
    original = letter(to=office.ada, subject="Accident report 4711")
    original.add_alternative('<p>See <img src="cid:photo"></p>', subtype="html")
    page = original.get_payload(1)
    assert isinstance(page, EmailMessage)
    page.add_related(PNG, "image", "png", cid="<photo>", filename="photo.png", disposition="inline")
    original.add_attachment(PDF, "application", "pdf", filename="Unfallbericht Größe.pdf")
    return original


def test_forward_carries_files_and_pictures_unchanged(office: Office) -> None:
    message_id = office.receive(with_attachments(office))

    preview = office.tool("forward_email", message_id=message_id, to=[office.mira])["preview"]
    proposal = office.tool(
        "forward_email", message_id=message_id, to=[office.mira], comment="FYI", confirm=True
    )
    action = office.approve(proposal)

    assert preview["text"].startswith(
        "Forward of: Accident report 4711 (from mira@northwind.example) to: "
    )
    assert "Attachments: yes." in preview["text"]
    assert preview["original"]["has_attachments"] is True
    assert {a["name"]: a["size"] for a in preview["attachments"]} == {
        "Unfallbericht Größe.pdf": len(PDF),
        "photo.png": len(PNG),
    }
    assert action["state"] == "succeeded"
    (arrived,) = office.inbox(office.mira)
    assert arrived["Subject"] == "Fwd: Accident report 4711"
    files = {part.get_filename(): part for part in arrived.walk() if part.get_filename()}
    assert files["Unfallbericht Größe.pdf"].get_content() == PDF
    assert files["photo.png"].get_content() == PNG
    assert files["photo.png"]["Content-ID"] == "<photo>"
    body = arrived.get_body(("html",))
    assert body is not None
    assert 'src="cid:photo"' in body.get_content()
    text = arrived.get_body(("plain",))
    assert text is not None
    assert text.get_content().startswith(
        "FYI\n\n---------- Forwarded message ----------\nFrom: Mira Holm"
    )
    client = office.imap.signed_in(office.ada)
    client.select_folder("INBOX")
    assert rb"$Forwarded" in client.get_flags([1])[1]


def test_picture_that_an_edit_removes_leaves_as_a_file(office: Office) -> None:
    """Its page names it, so its readers have to see it."""
    message_id = office.receive(with_attachments(office))
    proposal = office.tool(
        "forward_email", message_id=message_id, to=[office.mira], comment="FYI", confirm=True
    )
    edit(proposal["action"]["id"], office.reviewer.user, body="<p>Without it</p>")
    office.approve(proposal)

    (arrived,) = office.inbox(office.mira)
    (picture,) = (part for part in arrived.walk() if part.get_filename() == "photo.png")
    assert picture.get_content_disposition() == "attachment"


@pytest.mark.parametrize(
    "content_id",
    [
        "=?utf-8?q?photo=0d=0aContent-Type:=20text/html=0d=0aX-Evil:=201?=",
        "=?utf-8?q?photo=0d=0a=0d=0aevil?=",
        "photo\x0bone",
    ],
    ids=["header", "body", "control"],
)
def test_forwarded_picture_brings_no_header_of_its_own(office: Office, content_id: str) -> None:
    source = with_attachments(office).as_bytes(policy=policy.SMTP)
    message_id = office.receive(source.replace(b"<photo>", f"<{content_id}>".encode()))

    office.approve(
        office.tool("forward_email", message_id=message_id, to=[office.mira], confirm=True)
    )

    (arrived,) = office.inbox(office.mira)
    (photo,) = (part for part in arrived.walk() if part.get_filename() == "photo.png")
    assert {name.lower() for name in photo.keys()} <= PART_HEADERS  # noqa: SIM118  # every header
    assert (photo.get_all("Content-Type"), photo.get_content()) == (["image/png"], PNG)


def test_forward_without_comment_or_attachments_says_so(office: Office) -> None:
    message_id = office.receive(letter(to=office.ada))

    preview = office.tool("forward_email", message_id=message_id, to=[office.mira, office.ada])[
        "preview"
    ]

    assert "Attachments: no." in preview["text"]
    assert preview["to"] == [office.mira, office.ada]
    assert preview["body_excerpt"].startswith("---------- Forwarded message ----------")


def test_attachments_by_handle_and_base64_arrive_unchanged(office: Office) -> None:
    upload = office.api.client.post(
        "/api/v1/attachments",
        {"file": _file("Größe.pdf", PDF)},
        headers={"Authorization": f"Bearer {office.api.secret}"},
    )
    assert upload.status_code == 201, upload.content
    handle = upload.json()["handle"]
    ask = {
        "to": [office.mira],
        "subject": "Files",
        "body": "Two files.",
        "attachments": [
            {"handle": handle},
            {
                "name": "notes.txt",
                "type": "text/plain",
                "content_base64": base64.b64encode(b"a\r\nb\n").decode(),
            },
        ],
    }

    preview = office.tool("send_email", **ask)["preview"]
    office.approve(office.tool("send_email", **ask, confirm=True))

    assert preview["attachments"][0] == {
        "name": "Größe.pdf",
        "size": len(PDF),
        "sha256": upload.json()["sha256"],
    }
    (arrived,) = office.inbox(office.mira)
    files = {
        part.get_filename(): part.get_payload(decode=True)
        for part in arrived.walk()
        if part.get_filename()
    }
    assert files == {"Größe.pdf": PDF, "notes.txt": b"a\r\nb\n"}


def _file(name: str, content: bytes) -> Any:
    stream = BytesIO(content)
    stream.name = name
    return stream


@pytest.mark.fault(49, 50)
@pytest.mark.parametrize(
    ("given", "code"),
    [
        pytest.param(
            {"handle": "7d444840-9dc0-11d1-b245-5ffdce74fad2"}, "invalid_input", id="unknown-handle"
        ),
        pytest.param({"name": "x", "content_base64": "%%%"}, "invalid_input", id="not-base64"),
        pytest.param({"content_base64": "aaaa"}, "invalid_input", id="no-name"),
        pytest.param(
            {"name": "a\u202egpj.exe", "content_base64": "aaaa"}, "invalid_input", id="bidi-name"
        ),
        pytest.param(
            {"name": "a\r\nb", "content_base64": "aaaa"}, "invalid_input", id="newline-name"
        ),
        pytest.param(
            {"name": "x", "content_base64": "A" * 4 * (4 * 1024**2 // 3 + 1)},
            "too_large",
            id="too-large",
        ),
    ],
)
def test_invalid_attachment_is_refused(office: Office, given: dict[str, str], code: str) -> None:
    problem = office.refused(
        "send_email", to=[office.mira], subject="s", body="b", attachments=[given], confirm=True
    )
    assert problem["code"] == code
    if code == "too_large":
        assert "4 MB" in problem["detail"]
    assert not PendingAction.objects.exists()


def test_search_result_can_be_answered_in_both_mailboxes(office: Office) -> None:
    original = letter(to=office.ada, sender=office.mira, subject="Packing list wanted")
    office.imap.deliver(office.mira, original.as_bytes())
    office.receive(original)
    for number in range(5):
        office.receive(letter(to=office.ada, subject=f"Noise {number}"))

    (found,) = office.tool("search_emails", subject="packing list")["emails"]
    assert "When do you come?" in office.tool("read_email", message_id=found["id"])["body"]
    draft = office.tool("draft_reply", message_id=found["id"], body="Here it is.")
    content = base64.b64encode(PDF).decode()
    draft = office.tool(
        "update_draft",
        draft_id=draft["id"],
        to=[office.mira],
        subject=draft["subject"],
        body="Here it is, attached.",
        attachments=[{"name": "list.pdf", "type": "application/pdf", "content_base64": content}],
    )
    action = office.approve(office.tool("send_draft", draft_id=draft["id"], confirm=True))

    assert action["state"] == "succeeded"
    _, arrived = office.inbox(office.mira)
    (copy,) = office.folder(SENT)
    for message in (arrived, copy):
        assert message["In-Reply-To"] == original["Message-ID"]
        assert message["Subject"] == "Re: Packing list wanted"
        (file,) = message.iter_attachments()
        assert file.get_content() == PDF
    assert office.folder("Drafts") == []
    thread = office.tool("read_thread", message_id=found["id"])["messages"]
    assert [message["from"] for message in thread] == [office.mira, office.ada]


@pytest.mark.fault(37)
def test_draft_changed_after_its_proposal_is_not_sent(office: Office) -> None:
    draft = office.tool("create_draft", to=[office.mira], subject="Offer", body="10 %")
    proposal = office.tool("send_draft", draft_id=draft["id"], confirm=True)
    office.tool(
        "update_draft", draft_id=draft["id"], to=[office.mira], subject="Offer", body="20 %"
    )

    action = office.approve(proposal)

    assert (action["state"], action["error"]["code"]) == ("failed", "draft_changed")
    assert office.smtp.ledger == []
    assert len(office.folder("Drafts")) == 1


def test_draft_that_its_owner_sent_is_not_called_unreceived(office: Office) -> None:
    draft = office.tool("create_draft", to=[office.mira], subject="Offer", body="10 %")
    proposal = office.tool("send_draft", draft_id=draft["id"], confirm=True)
    office.tool("delete_draft", draft_id=draft["id"])  # a mail program moves it to Sent

    action = office.approve(proposal)

    assert (action["state"], action["error"]["code"]) == ("failed", "draft_changed")
    assert "Look in Sent" in action["next"]
    page = office.reviewer.client.get(f"/actions/{action['id']}/").content.decode()
    assert "Nobody received it" not in page


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(b"From: a@b.example\r\nSubject: x\r\n\r\nx\r\n", id="nobody-to-send-to"),
        pytest.param(
            b'To: Team:a@b.example;,"x" <c>\r\nSubject: x\r\n\r\nx\r\n', id="no-plain-address"
        ),
        pytest.param(
            b"To: a@b.example\r\nReply-To: c@d.example\r\nSubject: x\r\n\r\nx\r\n", id="reply-to"
        ),
        pytest.param(
            b"To: a@b.example\r\nContent-Type: multipart/signed; boundary=x\r\n\r\n--x\r\n\r\nx\r\n--x--\r\n",
            id="signed",
        ),
    ],
)
def test_draft_that_cannot_be_sent_unchanged_is_refused(office: Office, source: bytes) -> None:
    office.imap.deliver(office.ada, source, folder="Drafts")
    (draft,) = office.tool("list_drafts")["drafts"]

    assert (
        office.refused("send_draft", draft_id=draft["id"], confirm=True)["code"] == "invalid_input"
    )
    assert not PendingAction.objects.exists()


@pytest.mark.parametrize(
    ("sender", "warned"),
    [
        ("Sales <sales@lovelace.example>", True),
        ("Ada <ada@lovelace.example>, bob@lovelace.example", True),
        ("{own}", False),
        ("Ada", False),  # not finished
    ],
)
def test_draft_of_another_sender_is_a_warning(office: Office, sender: str, warned: bool) -> None:
    source = f"From: {sender}\r\nTo: {office.mira}\r\nSubject: Offer\r\n\r\n10 %\r\n"
    source = source.format(own=office.ada.upper())
    office.imap.deliver(office.ada, source.encode(), folder="Drafts")
    (draft,) = office.tool("list_drafts")["drafts"]

    sent = office.tool("send_draft", draft_id=draft["id"], confirm=True)
    changed = office.tool("update_draft", draft_id=draft["id"], body="20 %")

    for proposal in (sent, changed):
        assert ("draft_sender" in {each["code"] for each in proposal["warnings"]}) is warned


def test_every_sending_tool_takes_a_send_time(office: Office) -> None:
    message_id = office.receive(letter(to=office.ada))
    draft = office.tool("create_draft", to=[office.mira], subject="Later", body="Hello")["id"]
    later = timezone.now() + timedelta(days=2)
    calls: dict[str, dict[str, Any]] = {
        "send_email": {"to": [office.mira], "subject": "Later", "body": "Hello"},
        "reply_email": {"message_id": message_id, "comment": "Yes."},
        "forward_email": {"message_id": message_id, "to": [office.mira]},
        "send_draft": {"draft_id": draft},
    }
    for tool, given in calls.items():
        action = office.approve(office.tool(tool, **given, send_at=later.isoformat(), confirm=True))
        assert action["state"] == "approved", tool
        assert PendingAction.objects.get(pk=action["id"]).not_before == later
    assert office.inbox(office.mira) == []
