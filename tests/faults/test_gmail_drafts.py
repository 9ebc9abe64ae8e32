"""The draft at Gmail was changed, sent or lost, and the lookup fails: nothing leaves twice."""

import re
from collections.abc import Callable

import pytest

from approvals.gate.backoff import PROBES
from approvals.models import PendingAction
from approvals.worker import maintenance
from tests.conftest import Api, Reviewer
from tests.faults.gmail_road import (
    HIDDEN,
    approve,
    approved,
    drafts,
    look_again,
    naming,
    now_it_is_time,
    state,
)
from tests.support.people.gmail import ADA, gmail, letter, mailbox
from tests.support.servers.gmail import GmailServer
from tests.support.servers.gmail_data import Call
from tests.support.work import work

__all__ = ["approved", "gmail", "mailbox", "naming"]
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.fault(37)
def test_draft_edited_before_a_second_attempt_is_not_sent(
    api: Api, approved: PendingAction, gmail: GmailServer
) -> None:
    gmail.fail("drafts.send", 429)
    work()
    (draft,) = drafts(gmail)
    gmail.put_draft(ADA, letter("The person's own words"), draft)
    look_again()
    assert state(api, approved) == ("failed", "draft_changed")
    look_again()
    assert (gmail.ledger, gmail.count("drafts.send"), drafts(gmail)) == ([], 1, [draft])


@pytest.mark.fault(37)
@pytest.mark.parametrize("before", ["drafts.get", "drafts.send"])
def test_draft_deleted_before_the_send_is_unknown(
    api: Api, approved: PendingAction, gmail: GmailServer, before: str
) -> None:
    gmail.before[before] = lambda call: (
        gmail.delete_draft(ADA, drafts(gmail)[0]) if drafts(gmail) else None
    )
    work()
    assert state(api, approved) == ("unknown", "draft_gone")
    for _ in range(len(PROBES) + 1):
        look_again()
    assert state(api, approved) == ("unknown", "draft_gone")
    assert (gmail.ledger, gmail.count("drafts.create")) == ([], 1)


@pytest.mark.fault(37)
@pytest.mark.usefixtures("naming")
def test_draft_sent_by_the_owner_counts_as_sent(
    api: Api, approved: PendingAction, gmail: GmailServer
) -> None:
    gmail.fail("drafts.send", 429)
    work()
    (draft,) = drafts(gmail)
    gmail._send(gmail.box(ADA), draft)
    look_again()
    assert state(api, approved) == ("succeeded", None)
    assert (len(gmail.ledger), gmail.count("drafts.send")) == (1, 1)


@pytest.mark.fault(37)
@pytest.mark.parametrize("status", [400, 401, 429])
def test_refused_order_of_a_draft_that_is_gone_is_looked_up(
    api: Api, approved: PendingAction, gmail: GmailServer, status: int
) -> None:
    """Check the first attempt: the owner presses Send just before the order is refused."""

    def is_sent_by_its_person(call: Call) -> None:
        gmail._send(gmail.box(ADA), drafts(gmail)[0])

    gmail.before["drafts.send"] = is_sent_by_its_person
    gmail.fail("drafts.send", status)
    work()
    assert state(api, approved) == ("succeeded", None)
    assert (len(gmail.ledger), gmail.count("drafts.send")) == (1, 1)


PROBE_FAILS = [
    pytest.param(503, "", id="503"),
    pytest.param(429, "rateLimitExceeded", id="429", marks=pytest.mark.long),
    pytest.param(403, "insufficientPermissions", id="403"),
    pytest.param(0, "", id="reset", marks=pytest.mark.long),
]


@pytest.mark.fault(39)
@pytest.mark.usefixtures("naming")
@pytest.mark.parametrize(("status", "reason"), PROBE_FAILS)
@pytest.mark.parametrize("gone_before", ["drafts.get", "drafts.send"])
def test_missing_draft_is_unknown_while_sent_is_unreadable(
    api: Api,
    approved: PendingAction,
    gmail: GmailServer,
    gone_before: str,
    status: int,
    reason: str,
) -> None:
    """Leave it unknown, because an action that counts as not sent could be cancelled, or sent
    again.
    """

    def is_sent_by_its_person(call: Call) -> None:
        if drafts(gmail):
            gmail._send(gmail.box(ADA), drafts(gmail)[0])

    gmail.before[gone_before] = is_sent_by_its_person
    gmail.fail("messages.list", status, reason, times=None)
    work()
    for _ in range(2):
        assert state(api, approved) == ("unknown", "draft_gone")
        assert api.post(f"/actions/{approved.pk}/cancel").status_code == 409
        look_again()

    gmail.heal()
    look_again()
    assert state(api, approved) == ("succeeded", None)
    assert (len(gmail.ledger), gmail.count("drafts.create")) == (1, 1)


OTHER_CHANGES: dict[str, Callable[[bytes], bytes]] = {
    "changed-recipient": lambda raw: raw.replace(b"mira@", b"mirra@"),
    "changed-text": lambda raw: raw.replace(b"Thursday", b"Tuesday"),
    "changed-subject": lambda raw: raw.replace(b"Subject: Hello", b"Subject: Hallo"),
    "reply-to": lambda raw: b"Reply-To: spy@evil.example\r\n" + raw,
    "changed-sender": lambda raw: raw.replace(b"<ada@", b"<adam@"),
    "lost-mark": lambda raw: re.sub(rb"X-Mailhub-Mark: .*\r\n", b"", raw),
    "changed-mark": lambda raw: raw.replace(b"X-Mailhub-Mark: ", b"X-Mailhub-Mark: 0"),
}


@pytest.mark.fault(38)
@pytest.mark.parametrize(
    "tampered",
    [
        pytest.param(lambda raw: b"Bcc: spy@evil.example\r\n" + raw, id="extra-bcc"),
        pytest.param(lambda raw: raw.replace(b"JVBERi0=", b"JVBERi4="), id="swapped-attachment"),
        # test_gmail_content.py compares each part without a send.
        *(
            pytest.param(change, id=name, marks=pytest.mark.long)
            for name, change in OTHER_CHANGES.items()
        ),
    ],
)
def test_draft_that_reads_back_differently_is_not_sent(
    api: Api, reviewer: Reviewer, gmail: GmailServer, tampered: Callable[[bytes], bytes]
) -> None:
    gmail.tampers = tampered
    attachment = {"name": "a.pdf", "type": "application/pdf", "content_base64": "JVBERi0="}
    action = approve(api, reviewer, attachments=[attachment], bcc=[HIDDEN])
    work()
    assert state(api, action) == ("failed", "readback_mismatch")
    look_again()
    assert (gmail.ledger, gmail.count("drafts.send"), drafts(gmail)) == ([], 0, [])


def test_draft_that_gmail_only_formats_differently_is_sent(
    api: Api, approved: PendingAction, gmail: GmailServer
) -> None:
    gmail.tampers = lambda raw: (
        b"Received: by 10.0.0.1\r\n" + raw.replace(b"Message-ID:", b"X-Was:")
    )
    work()
    assert state(api, approved) == ("succeeded", None)


# The lookup fails


@pytest.mark.fault(39)
@pytest.mark.usefixtures("naming")
def test_failed_lookup_and_late_index_are_no_evidence(
    api: Api, approved: PendingAction, gmail: GmailServer
) -> None:
    gmail.drop("drafts.send", after=True)
    gmail.lists_lag = True
    work()
    gmail.fail("messages.list", 503)
    now_it_is_time()
    maintenance.sweep()
    assert state(api, approved)[0] == "unknown"
    for _ in range(2):
        look_again()
        assert state(api, approved)[0] == "unknown"

    gmail.lists_lag = False
    look_again()
    assert state(api, approved) == ("succeeded", None)
    assert (len(gmail.ledger), gmail.count("drafts.send")) == (1, 1)


@pytest.mark.fault(39)
@pytest.mark.usefixtures("naming")
def test_late_search_index_does_not_hide_a_sent_mail(
    api: Api, approved: PendingAction, gmail: GmailServer
) -> None:
    gmail.search_lags = True
    gmail.drop("drafts.send", after=True)
    work()
    look_again()
    assert state(api, approved) == ("succeeded", None)
    assert len(gmail.sources(ADA, "SENT")) == 1


def test_copy_in_sent_is_not_doubled_before_it_is_visible(
    api: Api, approved: PendingAction, gmail: GmailServer
) -> None:
    gmail.lists_lag = True
    work()
    look_again()
    assert state(api, approved) == ("succeeded", None)
    assert len(gmail.sources(ADA, "SENT")) == 1


def test_unconfirmed_draft_is_found_and_used(
    api: Api, approved: PendingAction, gmail: GmailServer
) -> None:
    gmail.drop("drafts.create", after=True)
    work()
    assert state(api, approved) == ("approved", "connection_lost")
    look_again()
    assert state(api, approved) == ("succeeded", None)
    assert (gmail.count("drafts.create"), len(gmail.ledger), drafts(gmail)) == (1, 1, [])


@pytest.mark.usefixtures("naming")
def test_unconfirmed_draft_sent_by_the_owner_is_not_repeated(
    api: Api, approved: PendingAction, gmail: GmailServer
) -> None:
    gmail.drop("drafts.create", after=True)
    work()
    gmail._send(gmail.box(ADA), drafts(gmail)[0])
    look_again()
    assert state(api, approved) == ("succeeded", None)
    assert (gmail.count("drafts.create"), gmail.count("drafts.send"), len(gmail.ledger)) == (
        1,
        0,
        1,
    )


def test_unconfirmed_draft_renamed_by_gmail_is_found(
    api: Api, approved: PendingAction, gmail: GmailServer
) -> None:
    gmail.tampers = lambda raw: re.sub(
        rb"(?m)^Message-ID:.*", b"Message-ID: <CA1@mail.gmail.com>\r", raw
    )
    gmail.drop("drafts.create", after=True)
    work()
    look_again()
    assert state(api, approved) == ("succeeded", None)
    assert (gmail.count("drafts.create"), len(gmail.ledger), drafts(gmail)) == (1, 1, [])


def test_unconfirmed_draft_is_removed_if_nothing_leaves(
    api: Api, approved: PendingAction, gmail: GmailServer
) -> None:
    gmail.drop("drafts.create", after=True)
    work()
    own = gmail.put_draft(ADA, letter("The person's own"))
    api.post(f"/actions/{approved.pk}/cancel")
    look_again()
    assert (drafts(gmail), gmail.ledger) == ([own], [])
