"""The lists of live tests for Gmail: on our own server always, and on a real account with `-m
live`.

`docs/dev/live-tests.md` lists the needs of the real account.
"""

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from accounts.connect import google
from accounts.connect.connecting import connect_mailbox
from accounts.connect.refreshing import CannotConnect, access_token
from accounts.infra import credentials
from accounts.models import Mailbox, User
from approvals.models import PendingAction
from tests.conftest import Api, Reviewer, make_api, problem_of
from tests.support.people.gmail import ADA, connected, gmail, letter
from tests.support.servers.gmail import GmailServer
from tests.support.servers.gmail_data import parsed
from tests.support.work import work
from tools.providers import provider_for
from tools.providers.gmail import GmailProvider

__all__ = ["gmail"]
pytestmark = pytest.mark.django_db(transaction=True)
SUBJECT = "mailhub live test"  # finds everything again for the cleanup
TOKEN_FILE = "GMAIL_LIVE_TOKEN_FILE"


@dataclass(frozen=True, kw_only=True)
class Account:
    mailbox: Mailbox
    api: Api
    sender: str
    word: str
    real: bool

    def search(self, query: str = "", **arguments: Any) -> list[dict[str, Any]]:
        answer = self.api.tool("gmail_search_messages", query=query, **arguments)
        assert answer.status_code == 200, answer.content
        found: list[dict[str, Any]] = answer.json()["messages"]
        return found

    def get(self, message_id: str, **arguments: Any) -> dict[str, Any]:
        answer = self.api.tool("gmail_get_message", message_id=message_id, **arguments)
        assert answer.status_code == 200, answer.content
        found: dict[str, Any] = answer.json()
        return found


def ours(server: GmailServer, user: User) -> Account:
    """Deliver forty mails of two months, one of them starred, one in Chinese, one in HTML."""
    now = int(time.time() * 1000)
    for number in range(40):
        at = format_datetime(datetime.now(UTC) - timedelta(days=number * 1.5))
        source = (
            letter(f"Meeting {number}", Date=at)
            if number
            else letter("月报", text="你好\n", Date=at)
        )
        labels = ("INBOX", "STARRED") if number == 3 else ("INBOX",)
        server.deliver(ADA, source, labels=labels, at=now - int(number * 1.5 * 86_400_000))
    mailbox = connected(server, user)
    return Account(
        mailbox=mailbox,
        api=make_api(user, mailbox),
        sender="mira@northwind.example",
        word="Meeting",
        real=False,
    )


def real(user: User) -> Account:
    path = os.environ.get(TOKEN_FILE)
    if not path:
        pytest.skip(f"{TOKEN_FILE} is not set: docs/dev/live-tests.md")
    grant = google.grant_in_file(Path(path))
    mailbox = connect_mailbox(
        owner=user,
        address=google.address_of(grant),
        provider="gmail",
        secrets=dict(grant.secrets),
        scopes=grant.abilities,
    )
    account = Account(mailbox=mailbox, api=make_api(user, mailbox), sender="", word="", real=True)
    newest = next(
        row for row in account.search("in:inbox") if row.get("subject") and row.get("from_email")
    )
    word = max(newest["subject"].strip("…").split(), key=len)
    return Account(
        mailbox=mailbox, api=account.api, sender=newest["from_email"], word=word, real=True
    )


@pytest.fixture(
    params=[
        pytest.param("ours", marks=pytest.mark.long),
        pytest.param("google", marks=pytest.mark.live),
    ]
)
def account(request: pytest.FixtureRequest, alice: User) -> Account:
    return ours(request.getfixturevalue("gmail"), alice) if request.param == "ours" else real(alice)


# Searching


def test_search_01_the_inbox_can_be_reached(account: Account) -> None:
    rows = account.search("in:inbox", max_results=5)
    assert 1 <= len(rows) <= 5
    assert all(row["id"] and row["thread_id"] for row in rows)
    assert any(row.get("from_email") and row.get("subject") and row.get("date") for row in rows)


def test_search_02_by_subject(account: Account) -> None:
    rows = account.search(f"subject:{account.word}")
    assert (
        account.word.lower()
        in account.get(rows[0]["id"], fmt="metadata")["headers"]["Subject"].lower()
    )


def test_search_03_by_sender(account: Account) -> None:
    rows = account.search(f"from:{account.sender}")
    assert {row["from_email"].lower() for row in rows} == {account.sender.lower()}


def test_search_04_newer_than_days(account: Account) -> None:
    few, many = (account.search(newer_than_days=days, max_results=50) for days in (3, 9999))
    assert all(
        row["date"] > f"{datetime.now(UTC) - timedelta(days=4):%Y-%m-%dT%H:%M:%SZ}"
        for row in few[:10]
    )
    assert len(many) >= len(few)


def test_search_05_label_ids(account: Account) -> None:
    inbox, starred = (
        account.search(label_ids=[label], max_results=50) for label in ("INBOX", "STARRED")
    )
    assert inbox
    assert not starred or [row["id"] for row in starred] != [row["id"] for row in inbox]


def test_search_06_larger_result_starts_with_the_smaller(account: Account) -> None:
    large, small = (account.search("in:anywhere", max_results=number) for number in (25, 5))
    assert len(large) <= 25
    assert len(small) <= 5
    assert {row["id"] for row in small} <= {row["id"] for row in large}


def test_search_07_no_id_comes_twice(account: Account) -> None:
    ids = [row["id"] for row in account.search("in:anywhere", max_results=25)]
    assert len(ids) == len(set(ids))


def test_search_08_nothing_found(account: Account) -> None:
    assert account.search("from:nonexistent_z9x8y7@fakeemail.test") == []


def test_search_09_several_conditions(account: Account) -> None:
    for row in account.search(f"from:{account.sender} subject:{account.word} newer_than:30d"):
        headers = account.get(row["id"], fmt="metadata")["headers"]
        assert account.sender.lower() in headers["From"].lower()
        assert account.word.lower() in headers["Subject"].lower()


def test_search_10_the_bounds_of_max_results(account: Account) -> None:
    assert len(account.search("in:anywhere", max_results=1)) == 1
    assert len(account.search("in:anywhere", max_results=50)) <= 50


# Reading


def newest(account: Account) -> str:
    return str(account.search("in:inbox", max_results=1)[0]["id"])


def test_read_01_a_full_message(account: Account) -> None:
    found = account.get(newest(account), fmt="full")
    assert {"From", "To", "Subject", "Date"} <= set(found["headers"])
    assert found["body_text"]


def test_read_02_metadata_has_no_body(account: Account) -> None:
    found = account.get(newest(account), fmt="metadata")
    assert {"headers", "snippet"} <= set(found)
    assert not {"body_text", "body_html"} & set(found)


def test_read_03_an_unknown_id(account: Account) -> None:
    problem = problem_of(account.api.tool("gmail_get_message", message_id="nonexistent_12345"))
    assert (problem["status"], "Check message_id" in problem["detail"]) == (404, True)


def test_read_04_the_headers_are_complete(account: Account) -> None:
    headers = account.get(newest(account))["headers"]
    assert all(headers[name] for name in ("From", "Subject", "Date"))
    assert "To" in headers


def test_read_05_a_body_is_decoded(account: Account) -> None:
    for row in account.search("in:inbox", max_results=5):
        text = account.get(row["id"]).get("body_text", "")
        assert not [
            line
            for line in text.splitlines()
            if len(line) > 60 and line.isalnum() and line.isascii()
        ]


# Signing in


def test_auth_01_a_stored_token_works(account: Account) -> None:
    assert access_token(account.mailbox, google.refresh)
    account.search("in:anywhere")


def test_auth_02_expired_token_is_refreshed(account: Account) -> None:
    before = credentials.decrypt(bytes(account.mailbox.credentials), mailbox_id=account.mailbox.pk)
    record = credentials.encrypt({**before, "expires_at": 1.0}, mailbox_id=account.mailbox.pk)
    Mailbox.objects.filter(pk=account.mailbox.pk).update(credentials=record)
    access_token(account.mailbox, google.refresh)
    assert account.search("in:inbox", max_results=1)


def test_auth_03_missing_token_file_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(CannotConnect) as caught:
        google.grant_in_file(tmp_path / "token.json")
    assert "connect_mailbox gmail" in str(caught.value)


def test_auth_04_broken_token_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "token.json").write_text("{")
    with pytest.raises(CannotConnect) as caught:
        google.grant_in_file(tmp_path / "token.json")
    assert "no valid JSON" in str(caught.value)


# From end to end


def test_end_to_end_02_thirty_of_a_large_result(account: Account) -> None:
    assert len(account.search("in:anywhere", max_results=30)) <= 30


def test_end_to_end_03_useless_token_is_an_auth_error(account: Account) -> None:
    before = credentials.decrypt(bytes(account.mailbox.credentials), mailbox_id=account.mailbox.pk)
    record = credentials.encrypt(
        {**before, "access_token": "ya29.of-no-use"}, mailbox_id=account.mailbox.pk
    )
    Mailbox.objects.filter(pk=account.mailbox.pk).update(credentials=record)
    problem = problem_of(account.api.tool("gmail_search_messages", query="in:inbox"))
    assert (problem["code"], problem["status"]) == ("auth_error", 424)
    assert account.search("in:inbox")  # the next call has a new token


def test_end_to_end_04_search_shows_the_same_as_reading(account: Account) -> None:
    row = account.search("in:inbox", max_results=1)[0]
    assert account.get(row["id"])["headers"]["Subject"].startswith(row["subject"].removesuffix("…"))


# Sending, only to oneself


def thrown_away(users: Any, *, id_: str) -> Any:
    return users.messages().trash(userId="me", id=id_)


@pytest.fixture
def cleaned(account: Account) -> Iterator[Callable[[], list[str]]]:
    """Move all mail with the fixed subject to the bin before and after, if the account allows
    it.
    """
    provider = provider_for(account.mailbox)
    assert isinstance(provider, GmailProvider)
    trash = os.environ.get("GMAIL_LIVE_CLEAN_UP") == "1" or not account.real

    def there() -> list[str]:
        return [row.id for row in provider.reader.find(f'subject:"{SUBJECT}"', limit=50).rows]

    def clean() -> None:
        for message_id in there() if trash else ():
            provider.mailbox.client.write(
                "messages.trash",
                partial(thrown_away, id_=message_id),
                scope="https://www.googleapis.com/auth/gmail.modify",
            )

    clean()
    yield there
    clean()


def carried_out(account: Account, reviewer: Reviewer, answer: Any) -> dict[str, Any]:
    assert answer.status_code == 202, answer.content
    action_id = answer.json()["action"]["id"]
    assert reviewer.decide(action_id, "approve").status_code == 302
    work()
    action: dict[str, Any] = account.api.get(f"/actions/{action_id}").json()
    return action


def test_send_and_forward_to_oneself(
    account: Account, reviewer: Reviewer, cleaned: Callable[[], list[str]]
) -> None:
    own = account.mailbox.address
    sent = account.api.tool("send_email", to=[own], subject=SUBJECT, body="One.", confirm=True)
    assert carried_out(account, reviewer, sent)["state"] == "succeeded"
    give_up_at = time.monotonic() + (30 if account.real else 0)
    while not (found := account.search(f'subject:"{SUBJECT}"')) and time.monotonic() < give_up_at:
        time.sleep(2)  # a real account shows the mail when it has arrived
    forward = account.api.tool(
        "forward_email", message_id=found[0]["id"], to=[own], comment="Two.", confirm=True
    )
    assert carried_out(account, reviewer, forward)["state"] == "succeeded"
    # Nobody is left whom an answer could go to.
    answer = account.api.tool("reply_email", message_id=found[0]["id"], comment="Three.")
    assert answer.status_code == 422


def test_sent_mail_is_found_in_sent(
    account: Account, reviewer: Reviewer, cleaned: Callable[[], list[str]]
) -> None:
    """Find the proof that settles a lost answer: our marker, or the Message-ID if Gmail has kept
    it.
    """
    answer = account.api.tool(
        "send_email", to=[account.mailbox.address], subject=SUBJECT, body="One.", confirm=True
    )
    assert carried_out(account, reviewer, answer)["state"] == "succeeded"
    message_id = PendingAction.objects.get().message_id
    give_up_at = time.monotonic() + (30 if account.real else 0)
    while (
        not (found := provider_for(account.mailbox).find_sent(message_id))
        and time.monotonic() < give_up_at
    ):
        time.sleep(2)
    assert found


def test_mail_sent_by_us_is_as_approved(
    gmail: GmailServer, alice: User, reviewer: Reviewer
) -> None:
    account = ours(gmail, alice)
    answer = account.api.tool("send_email", to=[ADA], subject=SUBJECT, body="One.", confirm=True)
    carried_out(account, reviewer, answer)
    assert [parsed(sent.content)["Subject"] for sent in gmail.ledger] == [SUBJECT]
