"""Steps of the proof that need the programs' own code, as a process: `furnish`, and `rule`.

Reads JSON from standard input and writes JSON to standard output.
"""

import json
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import django

django.setup()

from accounts.connect.connecting import connect_mailbox  # noqa: E402  (models need the line above)
from accounts.models import SCOPES, ApiToken, Mailbox, Membership, Role, SignInLink, User  # noqa: E402
from approvals.core.states import Status  # noqa: E402
from approvals.decisions import rulings, verdicts  # noqa: E402
from approvals.mailboxes import members  # noqa: E402
from approvals.models import ApprovalPolicy, PendingAction  # noqa: E402


def furnish(wanted: dict[str, Any]) -> dict[str, Any]:
    """Create two approvers, an agent of a third person who may only propose, and the mailboxes.

    `mailboxes`: address → provider, secrets and scopes; `two_needed`: those that require two
    people; `links`: the number for each person.
    """
    ada, bob, carol = (
        User.objects.create_user(f"{name}@proof.example") for name in ("ada", "bob", "carol")
    )
    mailboxes = [
        connect_mailbox(owner=ada, address=address, **access)
        for address, access in wanted["mailboxes"].items()
    ]
    for mailbox in mailboxes:
        Membership.objects.create(mailbox=mailbox, user=bob, role=Role.APPROVER)
        Membership.objects.create(mailbox=mailbox, user=carol, role=Role.PROPOSER)
        if mailbox.address in wanted["two_needed"]:
            ApprovalPolicy.objects.create(mailbox=mailbox, approvals_needed=2)
    links = [
        [SignInLink.issue(user=person, lifetime=timedelta(hours=1)) for _ in range(wanted["links"])]
        for person in (ada, bob)
    ]
    token = ApiToken.issue(user=carol, name="agent", scopes=list(SCOPES), mailboxes=mailboxes)[1]
    return {
        "token": token,
        "links": links,
        "mailboxes": [str(mailbox.pk) for mailbox in mailboxes],
        "second": bob.pk,
        "address": bob.email,
    }


def rule(action_ids: list[str]) -> dict[str, int]:
    """Rule, as a person who has looked, that these were not sent: they are sent again.

    Where two people must approve, the other one does so too. Return the attempt of each that was
    ruled about.
    """
    fences = {}
    ada, bob = (User.objects.get(email=f"{name}@proof.example") for name in ("ada", "bob"))
    for action in PendingAction.objects.filter(pk__in=action_ids):
        _let_approve(bob, action.mailbox, manager=ada)
        fences[str(action.pk)] = action.fence
        ruled = rulings.resolve(
            action_id=action.pk,
            person=ada,
            ruling="not_sent",
            fence=action.fence,
            restored=rulings.mark_of_restore(action),
        )
        if ruled.status == Status.PENDING:
            verdicts.approve(
                action_id=ruled.pk, person=bob, digest=ruled.digest, revision=ruled.revision
            )
    return fences


def _let_approve(person: User, mailbox: Mailbox, *, manager: User) -> None:
    """Give a person back the role that they may have lost."""
    if Membership.objects.filter(mailbox=mailbox, user=person).exists():
        members.change_role(mailbox=mailbox, person=manager, user_id=person.pk, role=Role.APPROVER)
    else:
        secret = members.invite(
            mailbox=mailbox, person=manager, email=person.email, role=Role.APPROVER
        )
        members.accept_invitation(secret=secret, person=person)


if __name__ == "__main__":
    calls: dict[str, Callable[[Any], Any]] = {"furnish": furnish, "rule": rule}
    json.dump(calls[sys.argv[1]](json.load(sys.stdin)), sys.stdout)
