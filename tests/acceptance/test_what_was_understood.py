"""The mail holds the choices of a program, and each answer repeats them, over a real mailbox."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from approvals.models import PendingAction
from tests.support.people.office import Office, letter, office
from tools.mail.message.compose import names_in

__all__ = ["office"]
pytestmark = pytest.mark.django_db(transaction=True)

MIRA, JO, SAM = (f"{name}@northwind.example" for name in ("mira", "jo", "sam"))
NOTE = {"to": MIRA, "subject": "Offer", "body": "Our offer."}


def test_choices_are_said_back_everywhere_in_utc(office: Office) -> None:
    later = (datetime.now(UTC) + timedelta(days=2)).replace(microsecond=0)
    asked = later.astimezone().isoformat()
    given = {**NOTE, "send_at": asked, "importance": "high", "save_to_sent_items": False}
    said = {
        "send_at": later.isoformat().replace("+00:00", "Z"),
        "from": office.ada,
        "importance": "high",
        "save_to_sent_items": False,
    }

    shown = office.tool("send_email", **given)["preview"]
    action = office.tool("send_email", **given, confirm=True)["action"]
    found = office.tool("get_action", action_id=action["id"])
    (listed,) = office.tool("list_actions")["items"]

    for answer in (shown, action, found, listed):
        assert {name: answer[name] for name in said} == said
        assert answer["expires_at"].endswith("Z")


def test_address_given_twice_is_kept_once_and_said(office: Office) -> None:
    answer = office.tool("send_email", **{**NOTE, "to": [MIRA, JO], "cc": MIRA.upper(), "bcc": JO})

    assert answer["preview"]["to"] == [MIRA, JO]
    assert not {"cc", "bcc"} & answer["preview"].keys()
    assert [note.split(" ")[0].lower() for note in answer["notes"]] == [MIRA, JO]
    draft = office.tool("create_draft", **{**NOTE, "cc": [MIRA]})
    assert "more than once" in draft["notes"][0]


@pytest.mark.parametrize("tool", ["send_email", "create_draft"])
def test_names_of_recipients_reach_the_mail(office: Office, tool: str) -> None:
    given = {**NOTE, "to": f'"Berg, Mira" <{MIRA}>', "cc": f"Jörg <{JO}>", "bcc": f"Sam <{SAM}>"}
    if tool == "create_draft":
        draft = office.tool("create_draft", **given)
        answer = office.tool("send_draft", draft_id=draft["id"], confirm=True)
    else:
        answer = office.tool("send_email", **given, confirm=True)

    action = PendingAction.objects.get(pk=answer["action"]["id"])
    shown = [(each["address"], each.get("name", "")) for each in action.current.preview["targets"]]
    assert shown == [(MIRA, "Berg, Mira"), (JO, "Jörg"), (SAM, "")]
    names = {MIRA: "Berg, Mira", JO: "Jörg"}
    assert office.tool("send_email", **given)["preview"]["names"] == names
    office.approve(answer)
    assert names_in(office.smtp.ledger[-1].content) == names


def test_name_that_no_header_holds_is_left_out_and_said(office: Office) -> None:
    answer = office.tool("send_email", **{**NOTE, "to": f"{'Ж' * 40} <{MIRA}>"})
    assert "names" not in answer["preview"]
    assert answer["notes"] == [f"The name of {MIRA} is not sent, because it is too long."]


@pytest.mark.parametrize("tool", ["reply_email", "forward_email", "draft_reply"])
def test_answer_takes_copies_pages_and_markdown(office: Office, tool: str) -> None:
    original = office.receive(letter(to=office.ada))
    text = "body" if tool == "draft_reply" else "comment"
    given = {"message_id": original, "cc": [JO], "bcc": [SAM], "body_type": "markdown"}
    given |= {text: "**On Thursday**\nat nine.\n\n| a |\n| --- |\n| <b>1</b> |"}
    if tool == "draft_reply":
        office.tool(tool, **given)
        (mail,) = office.folder("Drafts")
        page = mail.get_body(("html",))
        assert page is not None
        html = page.get_content()
        assert (str(mail["Cc"]), str(mail["Bcc"])) == (JO, SAM)
    else:
        given |= {"to": [MIRA]} if tool == "forward_email" else {}
        shown = office.tool(tool, **given)["preview"]
        assert (shown["to"], shown["cc"], shown["bcc"]) == ([MIRA], [JO], [SAM])
        action = office.tool(tool, **given, confirm=True)["action"]
        html = PendingAction.objects.get(pk=action["id"]).current.payload["html"]
    assert "<strong>On Thursday</strong><br>" in html.replace("<br />", "<br>")
    assert "&lt;b&gt;1&lt;/b&gt;" in html
    assert "<td" in html


@pytest.mark.parametrize("tool", ["send_email", "reply_email", "create_draft"])
def test_file_of_another_mail_is_attached_by_its_id(office: Office, tool: str) -> None:
    content = bytes(range(256)) * 12_000  # 3 MB
    message = letter(to=office.ada)
    message.add_attachment(content, "application", "pdf", filename="plan.pdf")
    original = office.receive(message)
    (file,) = office.tool("list_attachments", message_id=original)["attachments"]
    given: dict[str, Any] = {"attachments": [{"message_id": original, "attachment_id": file["id"]}]}
    given |= {"message_id": original, "comment": "Here."} if tool == "reply_email" else dict(NOTE)

    if tool == "create_draft":
        office.tool(tool, **given)
        (mail,) = office.folder("Drafts")
        (part,) = mail.iter_attachments()
        assert (part.get_filename(), part.get_content()) == ("plan.pdf", content)
    else:
        (shown,) = office.tool(tool, **given)["preview"]["attachments"]
        assert (shown["name"], shown["size"]) == ("plan.pdf", len(content))
    unknown = {**given, "attachments": [{"message_id": original, "attachment_id": "99"}]}
    (error,) = office.refused(tool, **unknown)["errors"]
    assert error["field"] == "attachments.0.attachment_id"


def test_file_can_be_given_as_text(office: Office) -> None:
    file = {"name": "plan.csv", "text": "day;hour\n"}
    office.tool("create_draft", **NOTE, attachments=[file])
    (mail,) = office.folder("Drafts")
    (part,) = mail.iter_attachments()
    assert part.get_payload(decode=True) == b"day;hour\n"

    wrong = {"name": "plan.csv", "content_base64": "day;hour"}
    (error,) = office.refused("create_draft", **NOTE, attachments=[wrong])["errors"]
    assert "did you mean text?" in error["message"]


def test_cut_text_of_a_conversation_says_how_to_go_on(office: Office) -> None:
    first = letter(to=office.ada)
    first.set_content("a" * 3000)
    office.receive(first)
    answer = letter(to=office.ada, References=first["Message-ID"])
    answer.set_content("b" * 3000)
    newest = office.receive(answer)

    thread = office.tool("read_thread", message_id=newest, max_chars=4000)

    old, new = thread["messages"]
    assert "truncated" not in new
    assert "read_email" in thread["next"]
    rest = office.tool("read_email", message_id=old["id"], offset=old["truncated"]["next_offset"])
    assert old["body"] + rest["body"] == "a" * 3000 + rest["body"][len(rest["body"].rstrip()) :]
    assert old["truncated"]["total_chars"] == len(old["body"] + rest["body"])


def test_list_and_search_are_in_the_order_of_dates(office: Office) -> None:
    days = [3, 9, 1, 7, 5, 8, 2, 6, 4]  # the order in which they were imported
    for day in days:
        mail = letter(to=office.ada, subject=f"Day {day}")
        mail.replace_header("Date", f"{day} Nov 2026 10:00:00 +0000")
        office.imap.deliver(office.ada, mail.as_bytes())

    def pages(tool: str, **given: object) -> list[str]:
        found: list[str] = []
        token: dict[str, str] = {}
        while True:
            page = office.tool(tool, **given, max_results=2, **token)
            found += [card["subject"] for card in page["emails"]]
            if "next_page_token" not in page:
                return found
            token = {"page_token": page["next_page_token"]}

    newest_first = [f"Day {day}" for day in range(9, 0, -1)]
    assert pages("list_emails") == newest_first
    assert pages("search_emails", subject="Day") == newest_first


def test_mail_is_as_new_as_its_date_but_no_newer_than_its_arrival(office: Office) -> None:
    client = office.imap.signed_in(office.ada)
    evening, morning = datetime(2026, 11, 5, 20, tzinfo=UTC), datetime(2026, 11, 5, 8, tzinfo=UTC)
    later = [(f"Imported later {n}", "5 Nov 2026 08:00:00 +0000", morning) for n in range(6)]
    for subject, written, arrived in (
        ("Imported first", "5 Nov 2026 20:00:00 +0000", evening),
        *later,
        ("From the future", "5 Nov 2099 08:00:00 +0000", morning),
    ):
        mail = letter(to=office.ada, subject=subject)
        mail.replace_header("Date", written)
        client.append("INBOX", mail.as_bytes(), msg_time=arrived)

    (first,) = office.tool("list_emails", max_results=1)["emails"]

    assert first["subject"] == "Imported first"
