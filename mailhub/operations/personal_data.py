"""Requests of people about their data: what mailhub keeps of an address, and its erasure."""

from typing import Any

from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount
from allauth.usersessions.models import UserSession
from django.contrib.admin.models import LogEntry
from django.db import transaction

from accounts.audit_hook import record_event
from accounts.infra.idn import comparable
from accounts.infra.transactions import retry_if_rolled_back
from accounts.models import (
    AddressCode,
    ApiToken,
    FailedSignIns,
    Invitation,
    KeyedCall,
    Membership,
    RequestRecord,
    SignInLink,
    SignInPlace,
    User,
)
from accounts.people.browsers import end_sessions
from accounts.people.recovery import revoke_all
from approvals.pages.mailboxes import personal_data
from mailhub.agent.models import Thread, ToolCall
from tools.models import Acquaintance, CommandRun, DownloadLink, Upload
from tools.sending.surroundings import digest_of_address

KEPT = (
    "A warning of a mail may name who wrote in its conversation or decided about it, until its content is removed.",
    "Decisions, attempts and audit events stay as proofs. They name the person by a number, and hold no words.",
    "Mail that left is in the mailboxes and at the recipients; mailhub deletes nothing there.",
    "Backups that were made before hold the data until you delete them.",
)
# Rows of an account that prove nothing.
OWN_ROWS = (
    (EmailAddress, "user"),
    (Authenticator, "user"),
    (SocialAccount, "user"),
    (SignInLink, "user"),
    (AddressCode, "person"),
    (SignInPlace, "user"),
    (FailedSignIns, "user"),
    (KeyedCall, "user"),
    (Thread, "user"),
    (ToolCall, "user"),
    (Upload, "owner"),
    (DownloadLink, "user"),
    (CommandRun, "user"),
)


def export(address: str) -> dict[str, Any]:
    """Return all that mailhub keeps of an address, as values of JSON."""
    address = address.strip().lower()
    person = User.objects.filter(email=address).first()
    address = comparable(address)  # as mails are stored
    return {
        "address": address,
        "account": _export_account(person) if person else None,
        "invitations": list(
            Invitation.objects.filter(email__iexact=address).values_list(
                "mailbox__address", flat=True
            )
        ),
        "mails_to_it": personal_data.export_correspondent(address),
        "answers_and_reports": personal_data.export_responses(address),
        "written_to_by": _find_acquaintances(address),
        "lists_of_rules": personal_data.find_lists(address),
        "kept": list(KEPT),
    }


def erase(address: str) -> list[str]:
    """Erase an address; return sentences about what was done and what stays, and why.

    Raises Problem `conflict` if the person is the only manager of a mailbox. Then nothing is done.
    """
    address = address.strip().lower()
    person = User.objects.filter(email=address).first()
    address = comparable(address)  # as mails are stored
    said = _erase_account(person) if person else ["There is no account with this address."]
    erased, left = personal_data.erase_correspondent(address)
    said.append(f"The content of {erased} mails to it was deleted.")
    if left:
        said.append(f"{left} mails to it have not ended. Run this again when they have.")
    responses = personal_data.erase_responses(address)
    said.append(f"It was deleted from the answers and reports of {responses} mails.")
    Acquaintance.objects.filter(digest=digest_of_address(address)).delete()
    Invitation.objects.filter(email__iexact=address).delete()
    if lists := personal_data.find_lists(address):
        said.append(f"The rules of {', '.join(lists)} name it. Their managers can remove it.")
    return [*said, *KEPT]


def _export_account(person: User) -> dict[str, Any]:
    tokens = ApiToken.objects.filter(user=person)
    return {
        "name": person.get_full_name(),
        "language": person.language,
        "since": person.date_joined.isoformat(),
        "last_sign_in": person.last_login.isoformat() if person.last_login else "",
        "active": person.is_active,
        "staff": person.is_staff,
        "mailboxes": [
            {"address": each.mailbox.address, "role": each.role}
            for each in Membership.on_any_day.filter(user=person).select_related("mailbox")
        ],
        "ways_to_sign_in": list(
            Authenticator.objects.filter(user=person).values_list("type", flat=True)
        ),
        "linked_accounts": list(
            SocialAccount.objects.filter(user=person).values("provider", "uid", "extra_data")
        ),
        "sessions": [
            {"ip": each.ip, "browser": each.user_agent, "since": each.created_at.isoformat()}
            for each in UserSession.objects.filter(user=person)
        ],
        "networks": list(SignInPlace.objects.filter(user=person).values_list("network", flat=True)),
        "tokens": [{"name": each.name, "scopes": each.scopes} for each in tokens],
        "requests": RequestRecord.objects.filter(token__in=tokens).count(),
        "chat": [
            {
                "title": thread.title,
                "messages": [
                    {"author": each.author, "text": each.text} for each in thread.messages.all()
                ],
            }
            for thread in Thread.objects.filter(user=person)
        ],
        "commands": [each.line for each in CommandRun.objects.filter(user=person)],
        **personal_data.export_person(person),
    }


@retry_if_rolled_back
@transaction.atomic
def _erase_account(person: User) -> list[str]:
    """End all access and delete what identifies the person. The row stays, because proofs name it."""
    User.objects.select_for_update(no_key=True).get(pk=person.pk)  # see `hold_account`
    personal_data.leave_mailboxes(person)
    end_sessions(person)
    UserSession.objects.filter(user=person).delete()
    revoke_all(person)
    RequestRecord.objects.filter(token__user=person).delete()
    for model, name in OWN_ROWS:
        model._default_manager.filter(**{name: person}).delete()
    LogEntry.objects.filter(content_type__model="user", object_id=str(person.pk)).delete()
    waits = personal_data.erase_person(person)
    person.email = f"erased-{person.pk}@erased.invalid"
    person.first_name = person.last_name = person.language = ""
    person.address_proven_at = person.last_login = None
    person.is_active = person.is_staff = person.is_superuser = False
    person.set_unusable_password()
    person.save()
    record_event("person_erased", person=None, subject=person)
    return [
        f"The account is closed and without a name: {person.email}.",
        "Approvals of mail that has not left no longer count.",
        *(
            f"{count} {name} stay. Erase {person.email} when it has."
            for name, count in waits.items()
            if count
        ),
    ]


def _find_acquaintances(address: str) -> list[str]:
    rows = Acquaintance.objects.filter(digest=digest_of_address(address))
    return sorted(rows.values_list("mailbox__address", flat=True))
