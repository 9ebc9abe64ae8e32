"""The review page in a browser without scripts: its content and its forms."""

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.utils import timezone

from accounts.models import Mailbox, Membership, Role, User
from approvals.gate import revise
from approvals.gate.execute import execute
from approvals.models import Decision, PendingAction, Presence, SavedView
from tests.approvals.kinds import Script, handed_over
from tests.approvals.review_pages import seal_of, text_of
from tests.conftest import Api, Reviewer
from tests.support.people.office import letter
from tests.support.servers.memory import MemoryServer

pytestmark = pytest.mark.django_db(transaction=True)


def test_old_form_shows_each_changed_word(api: Api, reviewer: Reviewer, bob: User) -> None:
    action_id = api.propose(body="We come on Thursday.")
    shown = seal_of(action_id)
    revise.edit(
        action_id=PendingAction.objects.get().pk,
        person=bob,
        **shown,
        changes={"body": "We come on Friday."},
    )

    answer = reviewer.decide(action_id, "approve", **shown)

    assert answer.status_code == 409
    assert "<del>Thursday</del>" in text_of(answer)
    assert "<ins>Friday</ins>" in text_of(answer)
    assert not Decision.objects.exists()


def test_reviewer_edits_every_field_and_sees_errors_beside_it(api: Api, reviewer: Reviewer) -> None:
    action_id = api.propose()
    assert 'data-action="edit"' in text_of(reviewer.page(action_id))

    wrong = reviewer.decide(
        action_id, "edit", to="mira@northwind.example\nnobody", subject="Kept as typed"
    )
    assert wrong.status_code == 422
    assert "nobody: " in text_of(wrong)
    assert "Kept as typed" in text_of(wrong)

    file = SimpleUploadedFile("offer.txt", b"offer", content_type="text/plain")
    done = reviewer.decide(
        action_id,
        "edit",
        to="paul@lovelace.example",
        cc="mira@northwind.example",
        subject="Other",
        body="<p>New</p>",
        body_type="html",
        attachments=file,
    )

    assert done.status_code == 302
    payload = PendingAction.objects.get().current.payload
    assert (payload["to"], payload["cc"]) == (["paul@lovelace.example"], ["mira@northwind.example"])
    assert (payload["subject"], payload["html"]) == ("Other", "<p>New</p>")
    assert [each["name"] for each in payload["attachments"]] == ["offer.txt"]
    history = text_of(reviewer.client.get(f"/actions/{action_id}/?view=history"))
    assert "Edited" in history


def test_question_reaches_the_program_and_needs_a_note(api: Api, reviewer: Reviewer) -> None:
    action_id = api.propose()

    assert reviewer.decide(action_id, "ask_back", note=" ").status_code == 422
    said = {"note": "Shorter", "passage": "on <Thursday>"}
    assert reviewer.decide(action_id, "ask_back", **said).status_code == 302

    review = api.get(f"/actions/{action_id}").json()["review"]
    assert {name: review[name] for name in said} == said
    assert review["verdict"] == "changes_requested"
    history = text_of(reviewer.client.get(f"/actions/{action_id}/?view=history"))
    assert "on &lt;Thursday&gt;" in history
    assert b"on <Thursday>" not in bytes(str(Decision.objects.values_list()[0]), "utf-8")


@pytest.mark.parametrize(("ruling", "state"), [("sent", "succeeded"), ("not_sent", "approved")])
def test_unknown_outcome_is_explained_and_takes_a_ruling(
    reviewer: Reviewer,
    approved: Callable[..., PendingAction],
    script: Script,
    ruling: str,
    state: str,
) -> None:
    action = approved()
    script.instead = handed_over
    execute(action.pk, worker="test")
    tabs = text_of(reviewer.client.get("/"))
    assert tabs.index(">Unknown") < tabs.index(">Pending")

    page = text_of(reviewer.page(str(action.pk)))
    assert "Handed over at" in page
    assert "mailhub never sends it again by itself." in page
    assert reviewer.decide(str(action.pk), "resolve", ruling="perhaps").status_code == 422
    assert reviewer.decide(str(action.pk), "resolve", ruling=ruling, fence=1).status_code == 302

    action.refresh_from_db()
    assert action.status == state


def test_events_reach_only_members(
    api: Api, foreign_api: Api, reviewer: Reviewer, bob: User, charlie: User, settings: Any
) -> None:
    settings.MAILHUB_UNDO_SECONDS = 60
    mine, theirs = api.propose(), foreign_api.propose()
    colleague, stranger = Reviewer.signed_in(bob), Reviewer.signed_in(charlie)
    colleague.page(mine)
    token = colleague.client.cookies["csrftoken"].value
    colleague.client.post(f"/actions/{mine}/presence/", {"csrfmiddlewaretoken": token})

    told = reviewer.client.get("/live/changes/", {"since": "0", "shown": mine}).json()
    assert [row["id"] for row in told["rows"]] == [mine]
    assert told["looking"] == {mine: ["Bob"]}
    assert "Bob is reviewing" in text_of(reviewer.client.get("/"))
    assert (
        reviewer.client.get("/live/").status_code == 204
    )  # no streams in this client: the page polls

    elsewhere = stranger.client.get("/live/changes/", {"since": "0", "shown": mine}).json()
    assert [row["id"] for row in elsewhere["rows"]] == [theirs]
    assert elsewhere["looking"] == {}
    for path in ("", "peek/", "edit/", "conversation/", "text/"):
        assert stranger.client.get(f"/actions/{mine}/{path}").status_code == 404
    assert stranger.client.post(f"/actions/{mine}/presence/").status_code in (403, 404)

    # Approved by Bob: every member of the mailbox sees that it is about to be sent and may take it
    # back.
    colleague.decide(mine, "approve")
    told = reviewer.client.get("/live/changes/", {"since": str(told["last"])}).json()
    assert told["rows"][0]["here"] is False
    assert "Undo" in told["toast"]
    assert reviewer.decide(mine, "undo").status_code == 302
    Presence.objects.update(seen_at=timezone.now() - timedelta(minutes=1))
    assert "Bob is reviewing" not in text_of(reviewer.client.get("/"))


def test_views_are_kept_and_single_keys_can_be_turned_off(
    reviewer: Reviewer, alice: User, mailbox: Mailbox
) -> None:
    reviewer.client.get("/?q=offer&warned=1")
    token = {"csrfmiddlewaretoken": reviewer.client.cookies["csrftoken"].value}
    reviewer.client.post(
        "/views/", {"name": "Offers", "query": "tab=pending&q=offer&warned=1&next=//x", **token}
    )
    view = SavedView.objects.get(person=alice)
    assert view.query == "tab=pending&q=offer&warned=1"
    assert "Offers" in text_of(reviewer.client.get("/"))
    reviewer.client.post(f"/views/{view.pk}/remove/", token)
    assert not SavedView.objects.exists()

    assert 'data-keys="on"' in text_of(reviewer.client.get("/"))
    reviewer.client.post("/keyboard/", {"keys": "off", **token})
    assert 'data-keys="off"' in text_of(reviewer.client.get("/"))


def test_every_page_counts_the_waiting_mail(api: Api, reviewer: Reviewer) -> None:
    api.propose()
    for address in ("/", "/drafts/", "/mailboxes/", "/numbers/", "/tokens/", "/account/"):
        page = reviewer.client.get(address).content.decode()
        assert re.search(r'class="n"\s+data-count="pending"\s*>1<', page), address


def test_approval_leads_to_the_next_waiting_mail(api: Api, reviewer: Reviewer) -> None:
    first, second = api.propose(subject="First"), api.propose(subject="Second")
    assert reviewer.decide(second, "approve", then="next")["Location"] == f"/actions/{first}/"
    assert reviewer.decide(first, "approve", then="next")["Location"] == "/"
    third = api.propose(subject="Third")
    onward = reviewer.decide(third, "approve", then="queue", query="tab=pending&q=x&evil=//y")
    assert onward["Location"] == "/?tab=pending&q=x"


def test_unusual_mail_is_shown_whole_or_marked_as_cut(api: Api, reviewer: Reviewer) -> None:
    everybody = [f"guest{n}@domain{n % 7}.example" for n in range(500)]
    page = text_of(reviewer.page(api.propose(to=everybody, subject="😀" * 255)))
    assert all(address in page for address in everybody)
    assert "500 addresses." in page
    assert "😀" * 255 in page
    page = text_of(
        reviewer.page(api.propose(subject="<script>alert(1)</script>", body="x" * 100_000))
    )
    assert "<script>alert(1)" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "Only the beginning is shown, but all of it would leave." in page
    rtl = api.propose(subject="עדכון", body="שלום מירה")
    assert "<bdi>עדכון</bdi>" in text_of(reviewer.page(rtl))
    whole = reviewer.client.get(f"/actions/{rtl}/text/")
    assert "attachment" in whole["Content-Disposition"]
    assert "שלום" in text_of(whole)


def test_kind_without_a_template_is_shown_by_its_text(
    api: Api, reviewer: Reviewer, script: Script
) -> None:
    script.template = script.later_template = ""
    page = text_of(reviewer.page(api.propose(body="Until Thursday.")))
    assert "Until Thursday." in page
    assert 'class="env"' not in page


@pytest.mark.fault(14)
def test_ended_session_decides_nothing_and_must_sign_in(api: Api, reviewer: Reviewer) -> None:
    action_id = api.propose()
    reviewer.page(action_id)
    token = reviewer.client.cookies["csrftoken"].value
    reviewer.client.logout()
    reviewer.client.cookies["csrftoken"] = token
    answer = reviewer.client.post(
        f"/actions/{action_id}/approve/", {**seal_of(action_id), "csrfmiddlewaretoken": token}
    )
    assert answer.status_code == 302
    assert answer["Location"].startswith("/sign-in/")
    assert PendingAction.objects.get().status == "pending"


def test_viewer_sees_no_way_to_decide(api: Api, mailbox: Mailbox, charlie: User) -> None:
    Membership.objects.create(mailbox=mailbox, user=charlie, role=Role.VIEWER)
    viewer = Reviewer.signed_in(charlie)
    action_id = api.propose()
    page = text_of(viewer.page(action_id))
    assert not re.findall(r'data-action="(approve|edit|ask_back|reject|undo)', page)
    assert 'class="pick"' not in text_of(viewer.client.get("/"))
    (row,) = viewer.client.get("/live/changes/", {"since": "0"}).json()["rows"]
    assert "pick" not in row["html"]
    assert viewer.decide(action_id, "edit", subject="Mine").status_code == 403
    assert viewer.decide(action_id, "ask_back", note="Mine").status_code == 403


def test_approver_withdraws_a_mail_that_leaves_later(
    api: Api, reviewer: Reviewer, bob: User
) -> None:
    """Its program is another person's, and its undo window is over."""
    action_id = api.propose(send_at=(timezone.now() + timedelta(hours=1)).isoformat())
    reviewer.decide(action_id, "approve")
    other = Reviewer.signed_in(bob)
    assert f"/actions/{action_id}/cancel/" in other.page(action_id).content.decode()

    other.decide(action_id, "cancel")

    assert PendingAction.objects.get(pk=action_id).status == "cancelled"


def test_conversation_page_is_folded_bounded_and_never_blocks(
    api: Api, reviewer: Reviewer, mailbox: Mailbox, server: MemoryServer
) -> None:
    quote = "You wrote:\n> one\n> two\n> three\n> four\n> five\n> six\n"
    huge = letter(to=mailbox.address, text=f"I agree.\n\n{quote}\nSee you soon.\n")
    huge.add_alternative(
        "<p>I agree.</p>" + "<table><tr><td>word</td></tr></table>" * 140_000, subtype="html"
    )
    server.deliver(mailbox.address, huge.as_bytes())
    original = api.tool("list_emails").json()["emails"][0]["id"]
    answer = api.tool("reply_email", message_id=original, comment="Thank you.", confirm=True)
    action_id = answer.json()["action"]["id"]

    page = reviewer.page(action_id)
    assert page.status_code == 200
    assert len(page.content) < 100_000
    assert f"/actions/{action_id}/conversation/" in text_of(page)
    shown = text_of(reviewer.client.get(f"/actions/{action_id}/conversation/?part=1"))
    assert "I agree." in shown
    assert "7 quoted lines" in shown
    assert "four" not in shown
    whole = text_of(reviewer.client.get(f"/actions/{action_id}/conversation/?quoted=1"))
    assert "four" in whole
    assert "No new messages in this conversation" in shown

    server.reachable = False
    assert reviewer.page(action_id).status_code == 200
    silent = reviewer.client.get(f"/actions/{action_id}/conversation/?part=1")
    assert silent.status_code == 200
    assert "cannot read the conversation right now" in text_of(silent)


def test_conversation_with_an_endless_number_is_shown(
    api: Api, reviewer: Reviewer, mailbox: Mailbox, server: MemoryServer
) -> None:
    text = f"I agree.\n[{'9' * 5000} quoted lines]\n"
    server.deliver(mailbox.address, letter(to=mailbox.address, text=text).as_bytes())
    original = api.tool("list_emails").json()["emails"][0]["id"]
    answer = api.tool("reply_email", message_id=original, comment="Thank you.", confirm=True)
    address = f"/actions/{answer.json()['action']['id']}/conversation/?part=1"
    assert "I agree." in text_of(reviewer.client.get(address))


@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/New_York"])
@pytest.mark.parametrize("year", ["0100", "9999"])
def test_date_that_a_reader_has_not_hides_no_conversation(
    api: Api, reviewer: Reviewer, mailbox: Mailbox, server: MemoryServer, year: str, zone: str
) -> None:
    """A stranger writes the Date of a mail, and its Message-ID puts it into any conversation."""
    for number, date in enumerate(
        (f"1 Jan {year} 00:00:00 +0000", f"31 Dec {year} 23:59:59 +0000")
    ):
        mail = letter(to=mailbox.address, text=f"Mail {number}", message_id="<same@x.example>")
        mail.replace_header("Date", date)
        server.deliver(mailbox.address, mail.as_bytes())
    original = api.tool("list_emails").json()["emails"][0]["id"]
    answer = api.tool("reply_email", message_id=original, comment="Thank you.", confirm=True)
    reviewer.client.cookies["zone"] = zone
    for page in ("", "peek/", "recipients/", "conversation/?part=1"):
        shown = reviewer.client.get(f"/actions/{answer.json()['action']['id']}/{page}")
        assert shown.status_code == 200, page
    assert "Mail 0" in text_of(shown)
    assert "Mail 1" in text_of(shown)


def test_answered_mail_is_first_and_whole_in_a_long_conversation(
    api: Api, reviewer: Reviewer, mailbox: Mailbox, server: MemoryServer
) -> None:
    first = letter(to=mailbox.address, text="The question. " * 300)
    server.deliver(mailbox.address, first.as_bytes())
    original = api.tool("list_emails").json()["emails"][0]["id"]
    for number in range(4):
        later = letter(to=mailbox.address, text=f"Later {number}. " * 400)
        later["References"] = first["Message-ID"]
        server.deliver(mailbox.address, later.as_bytes())
    answer = api.tool("reply_email", message_id=original, comment="Thank you.", confirm=True)
    action_id = answer.json()["action"]["id"]

    page = text_of(reviewer.client.get(f"/actions/{action_id}/conversation/?part=1"))

    marked = page[page.index("answers this") :]
    assert marked[: marked.index("</article>")].count("The question.") == 300
    assert "Later 3." in page
    assert "The rest of the conversation is in the mailbox." in page


def test_person_can_write_save_a_draft_and_propose(
    reviewer: Reviewer, mailbox: Mailbox, server: MemoryServer
) -> None:
    form = text_of(reviewer.client.get("/compose/"))
    token = {"csrfmiddlewaretoken": reviewer.client.cookies["csrftoken"].value}
    key = re.search(r'name="key" value="([0-9a-f]{32})"', form)
    assert key
    mail = {
        "mailbox": str(mailbox.pk),
        "to": "mira@northwind.example, paul@lovelace.example",
        "subject": "By hand",
        "body": "Hello\r\nMira",
        "key": key[1],
        **token,
    }
    wrong = reviewer.client.post("/compose/", {**mail, "to": "mira@northwind.example nobody"})
    assert wrong.status_code == 422
    assert "nobody: " in text_of(wrong)
    assert not PendingAction.objects.exists()

    file = SimpleUploadedFile("offer.txt", b"offer", content_type="text/plain")
    first = reviewer.client.post("/compose/", {**mail, "files": file})
    action = PendingAction.objects.get()
    assert first["Location"] == f"/actions/{action.pk}/"
    assert (action.status, action.proposer_name) == ("pending", "")
    assert action.current.payload["text"] == "Hello\nMira"
    assert [each["name"] for each in action.current.payload["attachments"]] == ["offer.txt"]

    assert reviewer.client.post("/compose/", {**mail, "as": "draft"}).status_code == 302
    drafts = text_of(reviewer.client.get("/drafts/"))
    assert "By hand" in drafts
    draft = re.search(r'name="draft" value="([^"]+)"', drafts)
    assert draft
    named = {"mailbox": str(mailbox.pk), "draft": draft[1], **token}
    proposed = reviewer.client.post("/drafts/send/", named)
    assert PendingAction.objects.count() == 2
    assert proposed["Location"].startswith("/actions/")
    assert reviewer.client.post("/drafts/delete/", named).status_code == 302
    assert "No drafts" in text_of(reviewer.client.get("/drafts/"))
    assert reviewer.client.post("/drafts/delete/", named).status_code == 404
    assert server.ledger == []
