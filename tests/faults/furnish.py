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

from django.utils import timezone  # noqa: E402  (models need the line above)

from accounts.access.audience import issuer  # noqa: E402
from accounts.connect.connecting import connect_mailbox  # noqa: E402
from accounts.models import SCOPES, ApiToken, Mailbox, Membership, Role, SignInLink, User  # noqa: E402
from accounts.oauth import grants, programs, tokens  # noqa: E402
from approvals.core.states import Status  # noqa: E402
from approvals.gate import decide, rulings  # noqa: E402
from approvals.models import ApprovalPolicy, PendingAction  # noqa: E402
from approvals.pages.mailboxes import members  # noqa: E402


def furnish(wanted: dict[str, Any]) -> dict[str, Any]:
    """Create two approvers, programs of a third person who may only propose, and the mailboxes.

    `mailboxes`: address → provider, secrets and scopes; `two_needed`: those that require two
    people; `links`: the number for each approver; `programs`: their number.
    """
    ada, bob, carol = (
        User.objects.create_user(f"{name}@proof.example") for name in ("ada", "bob", "carol")
    )
    mailboxes = [
        connect_mailbox(owner=ada, address=address, **access)
        for address, access in wanted["mailboxes"].items()
    ]
    Mailbox.objects.update(provider_files_copies=False)  # as after the first mail
    for mailbox in mailboxes:
        Membership.objects.create(mailbox=mailbox, user=bob, role=Role.APPROVER)
        Membership.objects.create(mailbox=mailbox, user=carol, role=Role.PROPOSER)
        if mailbox.address in wanted["two_needed"]:
            ApprovalPolicy.objects.create(mailbox=mailbox, approvals_needed=2)
    links = [
        [SignInLink.issue(user=person, lifetime=timedelta(hours=1)) for _ in range(wanted["links"])]
        for person in (ada, bob)
    ]
    return {
        "programs": [
            _sign_in(carol, mailboxes, number) if number % 2 else _issue(carol, mailboxes, number)
            for number in range(wanted["programs"])
        ],
        "owner_links": [
            SignInLink.issue(user=carol, lifetime=timedelta(hours=1))
            for _ in range(wanted["programs"])
        ],
        "links": links,
        "mailboxes": [str(mailbox.pk) for mailbox in mailboxes],
        "second": bob.pk,
        "address": bob.email,
    }


def _issue(person: User, mailboxes: list[Mailbox], number: int) -> dict[str, str]:
    """Make a token, and return the program that holds it."""
    token, secret = ApiToken.issue(
        user=person, name=f"agent {number}", scopes=list(SCOPES), mailboxes=mailboxes
    )
    return {"id": str(token.pk), "secret": secret}


def _sign_in(person: User, mailboxes: list[Mailbox], number: int) -> dict[str, str]:
    """Let a program sign in by OAuth, and return it; its access token outlives every clock."""
    client = programs.add(f"Program {number}", ["http://127.0.0.1:5000/back"])
    lifetime, scopes = timedelta(days=30), list(SCOPES)
    grant = grants.give(person, client, scopes=scopes, mailboxes=mailboxes, lifetime=lifetime)
    held = {"secret": tokens.new_access_token(), "refresh": tokens.new_refresh_token()}
    for kind, secret in zip((tokens.ACCESS, tokens.REFRESH), held.values(), strict=True):
        data = {"family": grant.pk.hex, "resources": [issuer()]}
        until = timezone.now() + lifetime
        tokens.keep(
            kind, secret, client=client, person=person, scopes=scopes, until=until, data=data
        )
    return {"id": str(grant.pk), "client": client.pk, **held}


def rule(action_ids: list[str]) -> dict[str, int]:
    """Rule, as a person who has looked, that these were not sent: they are sent again.

    Where two people must approve, the other one does so too. A ruling whose mail has other news is
    no approval, so the same person then approves as well. Return the attempt of each that was ruled
    about.
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
            restored=decide.mark_of_restore(action),
        )
        given = ruled.decisions.filter(approval_round=ruled.approval_round).values_list("person")
        for person in User.objects.filter(pk__in=(ada.pk, bob.pk)).exclude(pk__in=given):
            ruled.refresh_from_db()
            if ruled.status == Status.PENDING:
                decide.approve(
                    action_id=ruled.pk,
                    person=person,
                    digest=ruled.digest,
                    revision=ruled.revision,
                    restored=decide.mark_of_restore(ruled),
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
