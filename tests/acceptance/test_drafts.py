"""Drafts on a real IMAP server: written, replaced and removed in that folder only."""

import pytest

from approvals.models import PendingAction
from tests.support.people.office import SENT, Office, letter, office, plain_office

__all__ = ["office", "plain_office"]
pytestmark = pytest.mark.django_db(transaction=True)

NOTE = {"to": ["mira@northwind.example"], "subject": "Offer", "body": "Dear Mira,\nour offer.\n"}


def test_draft_is_flagged_in_the_folder_with_the_drafts_role(office: Office) -> None:
    draft = office.tool(
        "create_draft", **NOTE, cc=["jo@northwind.example"], bcc=["eve@lovelace.example"]
    )

    assert (draft["subject"], draft["to"]) == ("Offer", ["mira@northwind.example"])
    (stored,) = office.folder("Drafts")
    assert stored["Bcc"] == "eve@lovelace.example"
    assert stored.get_content() == NOTE["body"]
    client = office.imap.signed_in(office.ada)
    client.select_folder("Drafts")
    assert rb"\Draft" in client.get_flags([draft["uid"]])[draft["uid"]]
    assert office.smtp.ledger == []


def test_folder_named_drafts_is_used_if_none_has_the_role(plain_office: Office) -> None:
    plain_office.imap.signed_in(plain_office.ada).create_folder("Entwürfe")

    plain_office.tool("create_draft", **NOTE)

    assert len(plain_office.folder("Entwürfe")) == 1


def test_reply_draft_has_references_and_one_re(office: Office) -> None:
    original = letter(
        to=office.ada, References="<a@x.example> <b@x.example>", In_Reply_To="<b@x.example>"
    )
    message_id = office.receive(original)

    office.tool("create_draft", **{**NOTE, "subject": "Re: Delivery"}, in_reply_to=message_id)

    (stored,) = office.folder("Drafts")
    assert stored["Subject"] == "Re: Delivery"
    assert stored["In-Reply-To"] == original["Message-ID"]
    assert str(stored["References"]).split() == [
        "<a@x.example>",
        "<b@x.example>",
        original["Message-ID"],
    ]


def test_reply_draft_can_name_its_original_by_uid(office: Office) -> None:
    original = letter(to=office.ada)
    office.receive(original)

    office.tool("create_draft", **NOTE, in_reply_to=1)

    (stored,) = office.folder("Drafts")
    assert (stored["Subject"], stored["In-Reply-To"]) == ("Re: Offer", original["Message-ID"])


def test_reply_draft_derives_recipients_subject_and_thread(office: Office) -> None:
    original = letter(to=office.ada, subject="RE: Re: Delivery", Reply_To="desk@northwind.example")
    message_id = office.receive(original)

    draft = office.tool("draft_reply", message_id=message_id, body="On Thursday.")

    assert (draft["to"], draft["subject"]) == (["desk@northwind.example"], "Re: Delivery")
    (stored,) = office.folder("Drafts")
    assert stored["In-Reply-To"] == original["Message-ID"]
    assert stored.get_content().startswith("On Thursday.\n")
    assert "> When do you come?" in stored.get_content()
    assert stored["Cc"] is None


def test_reply_draft_to_all_leaves_out_the_sender(office: Office) -> None:
    message_id = office.receive(
        letter(
            to=f"{office.ada}, Jo <jo@northwind.example>",
            Cc=f"sam@northwind.example, {office.ada.upper()}",
        )
    )

    office.tool("draft_reply", message_id=message_id, body="To all.", reply_all=True)

    (stored,) = office.folder("Drafts")
    assert stored["To"] == "Mira Holm <mira@northwind.example>"
    assert stored["Cc"] == "Jo <jo@northwind.example>, sam@northwind.example"


@pytest.mark.parametrize(("tool", "text"), [("draft_reply", "body"), ("reply_email", "comment")])
def test_reply_to_own_mail_goes_on_to_its_recipients(office: Office, tool: str, text: str) -> None:
    def answered(reply_all: bool, **headers: str) -> tuple[list[str], list[str]]:
        own = letter(sender=f"Ada <{office.ada.upper()}>", **headers)
        given = {text: "One more thing.", "reply_all": reply_all}
        answer = office.tool(tool, message_id=office.receive(own), **given)
        if tool == "reply_email":
            return answer["preview"]["to"], answer["preview"].get("cc", [])
        stored = office.folder("Drafts")[-1]
        return answer["to"], [a.addr_spec for a in stored["Cc"].addresses] if stored["Cc"] else []

    mira, jo, sam = (f"{name}@northwind.example" for name in ("mira", "jo", "sam"))
    everybody = {"to": f"{mira}, {office.ada}", "Cc": f"{jo}, {office.ada}"}
    assert answered(False, **everybody) == ([mira], [])
    assert answered(True, **everybody) == ([mira], [jo])
    assert answered(False, to=office.ada, Cc=jo) == ([jo], [])
    assert answered(False, to=office.ada, Reply_To=sam) == ([sam], [])

    alone = office.receive(letter(sender=office.ada, to=office.ada))
    problem = office.refused(tool, message_id=alone, **{text: "x"})
    assert (problem["code"], "send_email" in problem["detail"]) == ("invalid_input", True)


@pytest.mark.parametrize("folder", ["INBOX", SENT])
def test_answer_to_a_forged_own_mail_is_a_risk(office: Office, folder: str) -> None:
    own = letter(sender=f"Ada <{office.ada}>", to="thief@other.example")
    office.imap.deliver(office.ada, own.as_bytes(), folder=folder)
    (card,) = office.tool("list_emails", folder=folder)["emails"]

    office.tool("reply_email", message_id=card["id"], comment="4711", confirm=True)

    preview = PendingAction.objects.get().current.preview
    risks = {each["code"] for each in preview["warnings"] if each["severity"] == "risk"}
    assert ("reply_to_differs" in risks) is (folder == "INBOX")


def test_reply_draft_to_an_unknown_uid_is_refused(office: Office) -> None:
    problem = office.refused("draft_reply", uid=4711, body="x")
    assert (problem["code"], problem["detail"]) == ("not_found", "Email with UID 4711 not found.")


def test_updated_draft_replaces_only_the_old_one(office: Office) -> None:
    original = letter(to=office.ada)
    message_id = office.receive(original)
    client = office.imap.signed_in(office.ada)
    client.append(
        "Drafts", b"Subject: somebody else's, marked as deleted\r\n\r\nx\r\n", flags=(rb"\Deleted",)
    )
    first = office.tool("draft_reply", message_id=message_id, body="First.")

    second = office.tool("update_draft", draft_id=first["id"], **{**NOTE, "body": "Second."})

    assert second["id"] != first["id"]
    assert second["uid"] > first["uid"]
    foreign, stored = office.folder("Drafts")
    assert "somebody else" in foreign["Subject"]
    assert stored.get_content() == "Second.\n"
    assert stored["In-Reply-To"] == original["Message-ID"]
    assert office.tool("list_drafts")["drafts"][0]["id"] == second["id"]


def test_update_keeps_what_it_does_not_name(office: Office) -> None:
    file = {"name": "plan.txt", "content_base64": "VGhlIHBsYW4="}
    jo, eve = "jo@northwind.example", "eve@lovelace.example"

    def changed(draft: str, **named: object) -> tuple[str, list[object]]:
        row = office.tool("update_draft", draft_id=draft, **NOTE, **named)
        (stored,) = office.folder("Drafts")
        files = [part.get_filename() for part in stored.iter_attachments()]
        return row["id"], [stored["Cc"], stored["Bcc"], files]

    first = office.tool("create_draft", **NOTE, cc=[jo], bcc=[eve], attachments=[file])["id"]
    second, kept = changed(first)
    assert kept == [jo, eve, ["plan.txt"]]
    third, moved = changed(second, bcc=[jo])
    assert moved == [None, jo, ["plan.txt"]]  # nobody is named twice
    fourth, without_file = changed(third, attachments=[])
    assert without_file == [None, jo, []]
    assert changed(fourth, bcc=None)[1] == [None, None, []]


def test_update_of_one_field_keeps_the_page(office: Office) -> None:
    page = "<p>Dear <b>Mira</b>,</p><p>our offer.</p>"
    given = {**NOTE, "to": "Mira Berg <mira@northwind.example>", "body": page}
    draft = office.tool("create_draft", **given, body_type="html")["id"]

    def changed(**named: object) -> tuple[str, str]:
        row = office.tool("update_draft", draft_id=draft, **named)
        (stored,) = office.folder("Drafts")
        assert str(stored["To"]) == "Mira Berg <mira@northwind.example>"
        html, text = (stored.get_body((kind,)) for kind in ("html", "plain"))
        assert text is not None
        return row["id"], html.get_content() if html is not None else ""

    draft, kept = changed(subject="Better offer")
    assert "Dear <b>Mira</b>" in kept
    draft, written = changed(body="1 < 2\n\nSee you.")
    assert written.strip() == "<p>1 &lt; 2</p><p>See you.</p>"
    draft, plain = changed(body="Only text.", body_type="text")
    assert plain == ""

    for nothing in ({}, {"body_type": "html"}):
        assert office.refused("update_draft", draft_id=draft, **nothing)["code"] == "invalid_input"


def test_update_can_name_the_draft_by_uid(office: Office) -> None:
    draft = office.tool("create_draft", **NOTE)
    office.tool("update_draft", uid=draft["uid"], **{**NOTE, "subject": "Better"})
    assert [stored["Subject"] for stored in office.folder("Drafts")] == ["Better"]


@pytest.mark.parametrize("tool", ["update_draft", "delete_draft"])
def test_message_that_is_no_draft_is_left_alone(office: Office, tool: str) -> None:
    message_id = office.receive(letter(to=office.ada))

    problem = office.refused(tool, draft_id=message_id, **(NOTE if tool == "update_draft" else {}))

    assert (problem["code"], problem["detail"]) == (
        "invalid_input",
        "You can only update drafts. The email you provided is not in the drafts folder.",
    )
    assert len(office.inbox(office.ada)) == 1


def test_uid_outside_drafts_is_no_draft(office: Office) -> None:
    problem = office.refused("update_draft", uid=4711, **NOTE)
    assert (problem["code"], problem["detail"]) == (
        "invalid_input",
        "You can only update drafts. The email you provided is not in the drafts folder.",
    )


def test_missing_drafts_folder_is_explained(plain_office: Office) -> None:
    problem = plain_office.refused("list_drafts")
    assert (
        problem["detail"]
        == "Could not find Drafts folder. Available folders can be listed with list_folders."
    )


def test_deletion_removes_only_the_draft(office: Office) -> None:
    keep, drop = (
        office.tool("create_draft", **NOTE),
        office.tool("create_draft", **{**NOTE, "subject": "Drop"}),
    )

    assert office.tool("delete_draft", draft_id=drop["id"]) == {"deleted": True}

    assert [draft["id"] for draft in office.tool("list_drafts")["drafts"]] == [keep["id"]]
    assert office.refused("delete_draft", draft_id=drop["id"])["code"] == "not_found"


def test_draft_changed_by_a_person_is_not_overwritten(office: Office) -> None:
    draft = office.tool("create_draft", **NOTE)
    client = office.imap.signed_in(office.ada)
    client.select_folder("Drafts")
    (source,) = office.imap.messages(office.ada, "Drafts")
    client.select_folder("Drafts")
    client.append("Drafts", source.replace(b"our offer", b"my offer"), flags=(rb"\Draft",))
    client.add_flags([draft["uid"]], [rb"\Deleted"])
    client.uid_expunge([draft["uid"]])

    assert office.refused("update_draft", draft_id=draft["id"], **NOTE)["code"] == "not_found"
    (now,) = office.tool("list_drafts")["drafts"]
    assert now["id"] != draft["id"]
    assert "my offer" in office.tool("read_email", message_id=now["id"])["body"]


def test_non_ascii_drafts_keep_their_letters(office: Office) -> None:
    office.tool(
        "create_draft",
        to=["mira@northwind.example"],
        subject="Grüße 日本語",
        body="Zoë sagt: schön\n",
    )
    (stored,) = office.folder("Drafts")
    assert stored["Subject"] == "Grüße 日本語"
    assert stored.get_content() == "Zoë sagt: schön\n"
    assert office.tool("list_drafts")["drafts"][0]["subject"] == "Grüße 日本語"
