"""Stored payloads of mails: read as a whole and written back unchanged, or refused.

`payloads.json` holds what mailhub stored before payloads had a class, with the digests.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction

from accounts.access.caller import Caller
from accounts.models import Mailbox, User
from approvals.core.signatures import digest_of
from approvals.gate import decide
from approvals.gate.load import lock_action
from approvals.gate.rules.policy import policy_of
from approvals.models import PendingAction
from tests.conftest import Reviewer
from tests.support.servers.memory import MemoryServer
from tests.support.stored import store_mail
from tests.support.work import work
from tools.sending.payload import MailPayload, ProposedDraft
from tools.stored import Unreadable

STORED = json.loads((Path(__file__).parent / "payloads.json").read_text())
# Members that older payloads lack, with the values that count then.
LATER = {"version": 1, "reply_all": False, "comment": "", "revised": False}


def payload(name: str = "send", **members: Any) -> dict[str, Any]:
    return {**STORED[name]["payload"], **members}


@pytest.mark.parametrize("name", STORED)
def test_stored_payload_keeps_its_members_and_digest(name: str) -> None:
    again = MailPayload.from_json(payload(name)).as_json()

    assert json.dumps(again) == json.dumps(payload(name))
    assert digest_of(again) == STORED[name]["digest"]


@pytest.mark.parametrize("name", STORED)
def test_payload_without_later_members_keeps_its_digest(name: str) -> None:
    older = {key: value for key, value in payload(name).items() if key not in LATER}

    read = MailPayload.from_json(older)

    assert {key: getattr(read, key) for key in LATER} == LATER
    assert digest_of(read.as_json()) == digest_of(older)


def test_members_are_read_with_their_types() -> None:
    reply = MailPayload.from_json(payload("reply_to_all_with_attachment"))
    draft = MailPayload.from_json(payload("send_draft")).draft

    assert (reply.sort, reply.reply_all, reply.comment) == ("reply", True, "On Thursday.")
    assert reply.recipients == (*reply.to, *reply.cc, *reply.bcc)
    assert [(file.name, file.size) for file in reply.attachments] == [("notes.txt", 1)]
    assert isinstance(draft, ProposedDraft)
    assert not reply.revised
    assert MailPayload.from_json(payload("edited_reply")).revised


@pytest.mark.parametrize(
    ("member", "value"),
    [
        pytest.param("version", 2, id="newer-version"),
        pytest.param("version", "1", id="version-of-another-type"),
        pytest.param("kind", "mail.recall", id="unknown-kind"),
        pytest.param("encrypted", True, id="unknown-member"),
        pytest.param("to", "mira@northwind.example", id="text-for-a-list"),
        pytest.param("save_to_sent_items", 1, id="number-for-a-truth-value"),
    ],
)
def test_payload_with_a_wrong_member_is_refused(member: str, value: Any) -> None:
    with pytest.raises(Unreadable) as refused:
        MailPayload.from_json(payload(**{member: value}))

    assert member in refused.value.detail
    assert "northwind" not in refused.value.detail


@pytest.mark.parametrize("member", sorted(set(STORED["send"]["payload"]) - set(LATER)))
def test_payload_with_a_missing_member_is_refused(member: str) -> None:
    stored = payload()
    del stored[member]

    with pytest.raises(Unreadable) as refused:
        MailPayload.from_json(stored)

    assert member in refused.value.detail


def test_name_of_an_attribute_is_no_member() -> None:
    stored = payload()
    stored["sender"] = stored.pop("from")

    with pytest.raises(Unreadable):
        MailPayload.from_json(stored)


@pytest.mark.django_db(transaction=True)
def test_mail_of_a_newer_version_is_not_shown_for_approval(
    mailbox: Mailbox, alice: User, reviewer: Reviewer
) -> None:
    action = store_mail(Caller(user=alice, surface="web"), mailbox, version=2)

    page = reviewer.page(str(action.pk))

    assert page.status_code == 200
    assert "The content cannot be read" in page.content.decode()
    assert "mira@northwind.example" not in page.content.decode().partition('id="history"')[0]
    assert f"/actions/{action.pk}/approve/" not in page.content.decode()
    assert reviewer.client.get(f"/actions/{action.pk}/conversation/").status_code == 200


@pytest.mark.django_db(transaction=True)
def test_approved_mail_of_a_newer_version_waits_with_the_reason(
    mailbox: Mailbox, alice: User, server: MemoryServer
) -> None:
    action = store_mail(Caller(user=alice, surface="web"), mailbox, version=2)
    # A process of the newer version, which can read it, takes the approval.
    with transaction.atomic():
        decide.count_approval(lock_action(action.pk), alice, policy_of(mailbox), given=1, method="")

    work()

    stored = PendingAction.objects.get()
    assert stored.status == "approved"
    assert stored.error
    assert stored.error["code"] == "unreadable"
    assert "Update mailhub" in stored.error["detail"]
    assert server.ledger == []


@pytest.mark.parametrize(
    ("text", "comment"),
    [
        pytest.param("On Thursday.\n", "On Thursday.", id="text"),
        pytest.param("If 5 < 6:\n  on Thursday.", "If 5 &lt; 6:<br>&nbsp; on Thursday.", id="html"),
        pytest.param("", "", id="forward-without-a-comment"),
    ],
)
@pytest.mark.django_db(transaction=True)
def test_stored_answer_without_its_quote_never_leaves(
    mailbox: Mailbox,
    alice: User,
    reviewer: Reviewer,
    server: MemoryServer,
    text: str,
    comment: str,
) -> None:
    """Check a mail of an earlier version, which let the provider write the quote."""
    caller = Caller(user=alice, surface="web")
    action = store_mail(caller, mailbox, original="18c", text=text, comment=comment)
    assert reviewer.decide(str(action.pk), "approve").status_code == 302

    work()

    action.refresh_from_db()
    assert (action.status, server.ledger) == ("failed", [])
    assert "would have added the quote" in str(action.error)
