"""Storing a mailbox once its access is proven, and removing that access again."""

import hashlib
import json
import uuid
from collections.abc import Mapping
from typing import Any, Literal

from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils import timezone

from accounts.audit_hook import record_event
from accounts.infra import credentials
from accounts.infra.transactions import retry_if_rolled_back
from accounts.models import Mailbox, Membership, Role, TokenRefresh, User

# How the address was proven: by an operator's command, by a sign-in at its own provider, or by a
# code that was mailed to it. The address may also be that of the person's account, or it was
# connected to the same servers before.
Proof = Literal["command", "sign_in", "code", "account", "same_servers"]


# The members of the access that say which account at which server it opens.
OF_ACCOUNT = ("identity", "imap", "smtp", "username")

ANOTHER_ACCOUNT = (
    "Another account of the provider signed in than the one this mailbox belongs to. If that is right, disconnect the "
    "mailbox first, then connect it again."
)


class AnotherAccount(PermissionError):
    """Sign-in with a provider account that is not the one the mailbox is bound to."""


@retry_if_rolled_back
@transaction.atomic
def connect_mailbox(
    *,
    owner: User,
    address: str,
    provider: str,
    secrets: dict[str, Any],
    scopes: list[str],
    proof: Proof = "command",
) -> Mailbox:
    """Store a new mailbox, or fresh access to one that the owner manages; the owner becomes its
    manager.

    The caller has proven that the address is the owner's; `proof` says how, for the audit. Raises
    PermissionError if the address is connected already and another person manages it. Raises
    AnotherAccount if the provider's account behind the address has changed.
    """
    address = address.strip().lower()
    known = Mailbox.objects.select_for_update(no_key=True).filter(address__iexact=address)
    mailbox = known.first()
    event = "mailbox_reconnected"
    if mailbox is None:
        try:
            with transaction.atomic():
                mailbox = _add(owner, address, provider, secrets, scopes)
            event = "mailbox_connected"
        except IntegrityError:  # it was connected in this moment
            mailbox = known.get()
    if event == "mailbox_reconnected":
        _refuse_another(owner, mailbox, secrets)
        _replace_access(mailbox, provider, secrets, scopes)
    record_event(event, person=owner, mailbox=mailbox, provider=provider, proof=proof)
    return mailbox


def _add(
    owner: User, address: str, provider: str, secrets: dict[str, Any], scopes: list[str]
) -> Mailbox:
    mailbox_id = uuid.uuid4()
    mailbox = Mailbox.objects.create(
        id=mailbox_id,
        address=address,
        name=owner.get_full_name(),
        provider=provider,
        scopes=scopes,
        checked_at=timezone.now(),
        credentials=credentials.encrypt(secrets, mailbox_id=mailbox_id),
    )
    Membership.objects.create(mailbox=mailbox, user=owner, role=Role.MANAGER)
    return mailbox


def _refuse_another(owner: User, mailbox: Mailbox, secrets: dict[str, Any]) -> None:
    """Raise PermissionError for another person, and AnotherAccount for another account."""
    if not Membership.objects.filter(mailbox=mailbox, user=owner, role=Role.MANAGER).exists():
        raise PermissionError
    bound, now = load_access(mailbox).get("identity"), secrets.get("identity")
    if bound and now and bound != now:
        raise AnotherAccount


def _replace_access(
    mailbox: Mailbox, provider: str, secrets: dict[str, Any], scopes: list[str]
) -> None:
    if account_of(mailbox) != _fingerprint(provider, secrets):
        mailbox.generation += 1
        mailbox.sent_folder = mailbox.drafts_folder = ""
        mailbox.sent_copies, mailbox.provider_files_copies = Mailbox.SentCopies.AUTOMATIC, None
    mailbox.provider = provider
    mailbox.scopes = scopes
    mailbox.status = Mailbox.Status.ACTIVE
    mailbox.checked_at = timezone.now()
    mailbox.credentials = credentials.encrypt(secrets, mailbox_id=mailbox.id)
    mailbox.credentials_version += 1  # kept connections of the old access are not used again
    # The old access's failure says nothing about the new one.
    TokenRefresh.objects.filter(mailbox=mailbox).delete()
    mailbox.save(
        update_fields=[
            "provider",
            "scopes",
            "status",
            "checked_at",
            "credentials",
            "credentials_version",
            "generation",
            "sent_folder",
            "drafts_folder",
            "sent_copies",
            "provider_files_copies",
        ]
    )


def load_access(mailbox: Mailbox) -> credentials.Secrets:
    """Return the stored access; empty if there is no access or its key is not configured."""
    try:
        return credentials.decrypt(bytes(mailbox.credentials), mailbox_id=mailbox.pk)
    except credentials.CannotDecrypt:
        return credentials.Secrets()


def account_of(mailbox: Mailbox) -> str:
    """Return a fingerprint of the account that the stored access opens; empty if there is no access
    or its key is not configured.
    """
    access = load_access(mailbox)
    return _fingerprint(mailbox.provider, access) if access else ""


def is_of_account(mailbox: Mailbox, account: str) -> bool:
    """Return False if the mailbox is connected to another account than the one with this
    fingerprint. Older versions noted none: an empty one fits.
    """
    now = account_of(mailbox)
    return now == account or not (now and account)


def _fingerprint(provider: str, access: Mapping[str, Any]) -> str:
    named = [provider, *(access.get(name) for name in OF_ACCOUNT)]
    return hashlib.sha256(json.dumps(named, sort_keys=True).encode()).hexdigest()


@retry_if_rolled_back
@transaction.atomic
def disconnect(mailbox: Mailbox, *, person: User) -> None:
    """Delete the access. Members, rules and history stay, so that it can be connected again."""
    Mailbox.objects.filter(pk=mailbox.pk).update(
        status=Mailbox.Status.DISCONNECTED,
        checked_at=timezone.now(),
        credentials=credentials.encrypt({}, mailbox_id=mailbox.pk),
        credentials_version=F("credentials_version") + 1,
        generation=F("generation") + 1,
    )
    record_event("mailbox_disconnected", person=person, mailbox=mailbox)
