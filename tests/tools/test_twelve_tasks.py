"""Twelve tasks of an agent, over MCP: few calls, no dead end, and nothing is lost silently.

The calls are those that a model guesses that knows `tools/list` only. After a refusal the next call
does what its words say. With TWELVE_TASKS=write the test writes its numbers into the page.
"""

import json
import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from approvals.models import PendingAction
from tests.approvals.revisions import ask_back
from tests.conformance.served import Door
from tests.conftest import make_api, make_mailbox
from tests.support.people.office import Office, letter, office
from tests.support.servers.memory import MemoryServer
from tests.support.work import work
from tests.tools.mcp_door import call
from tools.catalog.synonyms import NOT_OFFERED_SAYS

__all__ = ["office"]
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]

PAGE = Path(__file__).parents[2] / "docs/dev/twelve-tasks.md"
ROW = re.compile(r"^(\| [^|]+ \| \d+ \|) \d+ \| \d+ (\| [\d,]+ \|) [\d,]+ ", re.M)
AT_MOST = 60
COUNTED = ("calls", "refused", "size")
BOB = "bob@alps.example"


@dataclass
class Model:
    """A caller that counts its calls, and the bytes that it writes and reads."""

    door: Door
    calls: int = 0
    refused: int = 0
    size: int = 0

    def ask(self, tool: str, **arguments: Any) -> Any:
        text, is_error = call(self.door, tool, arguments)
        self.calls += 1
        self.refused += is_error
        self.size += len(json.dumps(arguments).encode()) + len(text.encode())
        return json.loads(text)

    def find(self, **conditions: Any) -> str:
        """Return the id of the newest mail that meets the conditions."""
        return str(self.ask("search_emails", **conditions)["emails"][0]["id"])


def words(problem: Any) -> str:
    return " ".join([problem["detail"], *(each["message"] for each in problem.get("errors", ()))])


def answer_an_invoice(model: Model, office: Office) -> None:
    office.receive(letter(to=office.ada, subject="Invoice 118", sender="billing@acme.example"))
    mail = model.find(query="invoice 118")
    assert "When do you come?" in model.ask("read_email", id=mail)["body"]
    shown = model.ask("reply_email", message_id=mail, body="We will pay on Friday.")
    assert shown["preview"]["to"] == ["billing@acme.example"]
    proposed = model.ask("reply_email", message_id=mail, body="We will pay.", confirm=True)
    assert (proposed["status"], "Wait" in proposed["action"]["next"]) == ("pending", True)


def forward_with_a_note(model: Model, office: Office) -> None:
    given = {"to": ["Tom <tom@northwind.example>", office.mira], "comment": "For your files."}
    mail = model.find(subject="Invoice 118")
    office.approve(model.ask("forward_email", message_id=mail, **given, confirm=True))
    assert "Tom <tom@northwind.example>" in office.inbox(office.mira)[-1]["To"]


def change_a_draft(model: Model, office: Office) -> None:
    file = {"filename": "agenda.txt", "content": "Budget"}
    first = model.ask(
        *["create_draft"], to=office.mira, cc=BOB, subject="Agenda", body="1.", attachments=[file]
    )
    second = model.ask("update_draft", draft_id=first["id"], body="1. Budget\n2. Room")
    kept = model.ask("read_email", message_id=second["id"])
    assert (kept["cc"], kept["attachments"][0]["name"]) == ([BOB], "agenda.txt")
    assert office.approve(model.ask("send_draft", draft_id=second["id"], confirm=True))["receipt"]


def follow_up(model: Model, office: Office) -> None:
    given = {"to": office.mira, "subject": "Our offer", "body": "Here it is.", "confirm": True}
    office.approve(office.tool("send_email", **given))
    asked = office.inbox(office.mira)[-1]
    mail = model.find(subject="Our offer", folder="sent")
    assert len(model.ask("read_thread", message_id=mail)["messages"]) == 1
    when = (datetime.now(UTC) + timedelta(days=5)).isoformat()
    proposed = model.ask(
        *["reply_email"], message_id=mail, body="Any news?", send_at=when, unless_answered=True,
        follow_up={"after_days": 3}, confirm=True,
    )  # fmt: skip
    action = proposed["action"]
    assert (action["unless_answered"], action["follow_up"]) == (True, {"after_days": 3})
    office.approve(proposed)
    office.receive(letter(to=office.ada, sender=office.mira, In_Reply_To=asked["Message-ID"]))
    PendingAction.objects.filter(pk=action["id"]).update(not_before=datetime.now(UTC))
    work()
    told = model.ask("get_action", action_id=action["id"])
    assert told["next"].startswith(f"{office.mira} answered first")
    assert [each["Subject"] for each in office.inbox(office.mira)].count("Re: Our offer") == 0


def clean_up(model: Model, office: Office) -> None:
    for number in range(5):
        office.receive(letter(to=office.ada, subject=f"News {number}", sender="n@news.example"))
    found = model.ask("search_emails", **{"from": "news.example"}, max_results=50)["emails"]
    for tool in ("archive_email", "move_email", "delete_email"):
        refused = model.ask(tool, message_id=found[0]["id"])
        assert NOT_OFFERED_SAYS in words(refused)
        assert "Did you mean" not in words(refused)
    assert len(found) == 5


def send_on_a_file(model: Model, office: Office) -> None:
    mail = letter(to=office.ada, subject="Photos", sender="leo@alps.example")
    mail.add_attachment(b"%PDF broken", maintype="application", subtype="pdf", filename="p.pdf")
    office.receive(mail)
    ids = {"message_id": model.find(query="leo", has_attachments=True)}
    ids["attachment_id"] = model.ask("list_attachments", **ids)["attachments"][0]["id"]
    assert "Ask for it as link" in words(model.ask("download_attachment", **ids))
    assert "url" in model.ask("download_attachment", **ids, **{"as": "link"})
    given = {"to": office.mira, "subject": "Photos of Leo", "body": "Here.", "attachments": [ids]}
    office.approve(model.ask("send_email", **given, confirm=True))
    assert [each.get_filename() for each in office.inbox(office.mira)[-1].iter_attachments()] == [
        "p.pdf"
    ]


def summarise(model: Model, office: Office) -> None:
    first, second = "<plan1@northwind.example>", "<plan2@northwind.example>"
    for subject, headers in (
        ("Plan", {"message_id": first}),
        ("Re: Plan", {"message_id": second, "In_Reply_To": first}),
        ("Re: Plan", {"References": second}),
    ):
        office.receive(letter(to=office.ada, subject=subject, **headers))
    mail = model.find(subject="Plan")
    assert len(model.ask("read_thread", message_id=mail)["messages"]) == 3


def correct_an_address(model: Model, office: Office) -> None:
    given = {"subject": "Monday", "body": "Shall we meet on Monday?", "confirm": True}
    proposed = model.ask("send_email", to=BOB, **given)
    wrong = proposed["action"]["id"]
    ask_back(wrong, office.reviewer.user, f"Write to {office.mira}")
    assert office.mira in model.ask("get_action", action_id=wrong)["review"]["note"]
    office.approve(model.ask("send_email", to=office.mira, **given, replaces=wrong))
    assert office.inbox(office.mira)[-1]["Subject"] == "Monday"


def wait_for_the_decision(model: Model, office: Office) -> None:
    given = {"to": [office.mira], "subject": "Tuesday", "body": "At ten.", "confirm": True}
    proposed = office.tool("send_email", **given)
    action = proposed["action"]["id"]
    office.reviewer.decide(action, "edit", subject="Tuesday at ten")
    office.approve(proposed)
    told = model.ask("get_action", action_id=action, wait=60)
    assert (told["state"], told["changes"][0]["after"]) == ("succeeded", "Tuesday at ten")


def send_later(model: Model, office: Office) -> None:
    given = {"to": office.mira, "subject": "Friday", "body": "See you.", "confirm": True}
    refused = words(model.ask("send_email", **given, send_at="tomorrow 9am"))
    assert re.search(r"such as \d{4}-\d\d-\d\dT09:00:00\+01:00", refused)
    when = (datetime.now(UTC) + timedelta(days=1)).replace(microsecond=0)
    asked = {**given, "send_at": when.isoformat()}
    refused = words(model.ask("send_email", **asked, follow_up={"days": 3}))
    assert "allowed: after_days, note" in refused
    refused = words(model.ask("send_email", **asked, unless_answered=True))
    assert "reply_email takes it" in refused
    proposed = model.ask("send_email", **asked)
    assert proposed["action"]["send_at"] == when.isoformat().replace("+00:00", "Z")


def write_by_habit(model: Model, office: Office) -> None:
    mail = model.find(subject="Invoice 118")
    body = {"content": "<p>Thank you</p>", "body_type": "text/html"}
    shown = model.ask("reply_email", messageId=mail, **body, cc=BOB)["preview"]
    assert shown["cc"] == [BOB]
    shown = model.ask("forward_email", email_id=mail, recipient=office.mira, bcc=BOB, note="See.")
    assert shown["preview"]["bcc"] == [BOB]
    assert model.ask("create_draft", subject="Hi", text="**Hi**", format="markdown")["id"]
    refused = words(model.ask("create_draft", template="welcome", variables={"name": "Mira"}))
    assert "is required" in refused
    assert "template" not in model.ask("create_draft", subject="Welcome", body="Dear Mira")


def use_the_mailbox_of_the_team(model: Model, office: Office) -> None:
    refused = words(model.ask("list_emails"))
    assert "list_mailboxes" in refused
    addresses = [each["address"] for each in model.ask("list_mailboxes")["mailboxes"]]
    assert addresses == [office.ada, "team@lovelace.example"]
    assert model.ask("list_emails", mailbox=addresses[1])["emails"] == []
    proposed = model.ask(
        *["send_email"], mailbox="team", to=office.mira, subject="Hi", body="Hi.", confirm=True
    )
    assert "list_mailboxes names yours" in words(proposed)
    given = {"from": addresses[1], "to": office.mira, "subject": "Hi", "body": "Hi."}
    assert model.ask("send_email", **given)["preview"]["mailbox"] == addresses[1]


DO = (
    answer_an_invoice, forward_with_a_note, change_a_draft, follow_up, clean_up, send_on_a_file, summarise,
    correct_an_address, wait_for_the_decision, send_later, write_by_habit, use_the_mailbox_of_the_team,
)  # fmt: skip


def test_twelve_tasks_need_few_calls(url: str, office: Office, server: MemoryServer) -> None:
    user = office.reviewer.user
    team = make_mailbox("team@lovelace.example", server, user)
    both = make_api(user, office.mailbox, team, name="both")
    done = []
    for task in DO:
        of_team = task is use_the_mailbox_of_the_team
        model = Model(Door(url=url, secret=both.secret if of_team else office.api.secret))
        task(model, office)
        done.append(model)

    together = Model(
        door=done[0].door, **{name: sum(getattr(each, name) for each in done) for name in COUNTED}
    )
    assert together.calls <= AT_MOST
    if os.environ.get("TWELVE_TASKS") == "write":
        PAGE.write_text(count(PAGE.read_text(), [*done, together]))
    # The bytes differ with each run.
    written = [
        [int(number) for number in each]
        for each in re.findall(r"^\| [^|]+ \| \d+ \| (\d+) \| (\d+) \|", PAGE.read_text(), re.M)
    ]
    assert written == [[each.calls, each.refused] for each in (*done, together)]


def count(page: str, done: list[Model]) -> str:
    """Return the page with the numbers of this run in its rows."""
    rows = iter(done)

    def fill(row: re.Match[str]) -> str:
        model = next(rows)
        return f"{row[1]} {model.calls} | {model.refused} {row[2]} {model.size:,} "

    return ROW.sub(fill, page)
