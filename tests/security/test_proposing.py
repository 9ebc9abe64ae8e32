"""The actions that a proposal may replace, and the rules by which a key or a waiting duplicate is
found again.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.utils import timezone

from accounts.access.caller import Caller
from accounts.infra.problems import Problem
from accounts.models import ApiToken, Mailbox, User
from approvals import guards
from approvals.core.types import Preview, Proposal, Target
from approvals.gate import propose
from approvals.gate.execute import execute
from approvals.gate.propose import replaceable
from approvals.models import ApprovalPolicy, IdempotencyRecord, PendingAction
from tests.approvals.conftest import approve, approved, script
from tests.approvals.kinds import Script, handed_over
from tests.conftest import HELLO, Api

__all__ = ["approved", "script"]
pytestmark = pytest.mark.django_db(transaction=True)
PROPOSAL = Proposal(
    kind="mail.send",
    payload={"to": ["mira@northwind.example"]},
    preview=Preview(
        title="Hello",
        targets=(Target(address="mira@northwind.example", role="to", external=True),),
        excerpt="",
        fingerprint="0" * 64,
    ),
    message_id="<one@lovelace.example>",
)


def agent(person: User) -> Caller:
    token = ApiToken.objects.get(user=person)
    return Caller(user=person, surface="rest", token=token, scopes=frozenset(token.scopes))


def test_key_belongs_to_one_tool(api: Api, alice: User, mailbox: Mailbox) -> None:
    api.propose(key="k1")
    found = IdempotencyRecord.objects.get()
    for tool, action in (("send_email", found.action), ("reply_email", None)):
        assert (
            propose.replay(
                caller=agent(alice),
                mailbox=mailbox,
                tool=tool,
                key="k1",
                request_digest=found.request_digest,
            )
            == action
        )


def test_person_replaces_no_foreign_proposal(api: Api, bob: User, mailbox: Mailbox) -> None:
    action_id = api.propose()
    with pytest.raises(Problem) as refused, transaction.atomic():
        replaceable(caller=Caller(user=bob, surface="web"), mailbox=mailbox, action_id=action_id)
    assert refused.value.code == "not_found"


def test_approved_duplicate_is_warned_about_at_any_age(api: Api, alice: User) -> None:
    approve(api.propose(send_at=(timezone.now() + timedelta(days=9)).isoformat()), alice)
    with guards.lift_guards(connection):
        PendingAction.objects.update(created_at=timezone.now() - timedelta(days=3))
    preview = api.tool("send_email", **HELLO).json()
    assert "possible_duplicate" in {warning["code"] for warning in preview["warnings"]}, preview


@pytest.mark.parametrize("status", ["executing", "unknown"])
def test_twin_of_leaving_or_unknown_mail_has_a_warning(
    api: Api, approved: Callable[..., PendingAction], script: Script, status: str
) -> None:
    first = approved()
    with guards.lift_guards(connection):
        PendingAction.objects.update(created_at=timezone.now() - timedelta(days=3))

    def propose_again(_: object = None) -> None:
        first.refresh_from_db()
        assert first.status == status
        again = PendingAction.objects.get(pk=api.propose())
        codes.update(warning["code"] for warning in again.current.preview["warnings"])

    codes: set[str] = set()
    script.instead = handed_over
    if status == "executing":
        script.before = propose_again
    execute(first.pk, worker="test")
    if status == "unknown":
        propose_again()

    assert "possible_duplicate" in codes


def test_replacement_repeated_after_a_race_is_answered(
    api: Api, alice: User, mailbox: Mailbox
) -> None:
    first = api.propose()
    asked = {
        "caller": agent(alice),
        "mailbox": mailbox,
        "tool": "send_email",
        "key": "k2",
        "request_digest": "1" * 64,
    }
    made, _ = propose.propose(**asked, proposal=PROPOSAL, replaces=first)  # type: ignore[arg-type]
    again = replace(PROPOSAL, message_id="<two@lovelace.example>")
    assert propose.propose(**asked, proposal=again, replaces=first) == (made, True)  # type: ignore[arg-type]
    with pytest.raises(Problem):
        propose.propose(**{**asked, "key": "k3"}, proposal=again, replaces=first)  # type: ignore[arg-type]


def test_rules_are_judged_where_a_proposal_is_stored(
    api: Api, alice: User, mailbox: Mailbox
) -> None:
    ApprovalPolicy.objects.create(mailbox=mailbox, refused=["northwind.example"])
    with pytest.raises(Problem) as refused:
        propose.propose(
            caller=agent(alice),
            mailbox=mailbox,
            tool="send_email",
            key=None,
            request_digest="",
            proposal=PROPOSAL,
        )
    assert refused.value.code == "policy_blocked"
    assert not PendingAction.objects.exists()
