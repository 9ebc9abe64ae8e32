"""Putting a mailbox on record once its access is proven."""

import uuid
from typing import Any

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from accounts import credentials
from accounts.models import Mailbox, Membership, Role, TokenRefresh, User
from accounts.witness import told


@transaction.atomic
def connect_mailbox(
    *, owner: User, address: str, provider: str, secrets: dict[str, Any], scopes: list[str], name: str = ""
) -> Mailbox:
    """Store a new mailbox, or fresh access to one that the owner manages; the owner becomes its manager.

    Raises PermissionError when the address is connected already and somebody else manages it.
    """
    address = address.strip().lower()
    mailbox = Mailbox.objects.select_for_update().filter(address__iexact=address).first()
    if mailbox is None:
        mailbox_id = uuid.uuid4()
        mailbox = Mailbox.objects.create(
            id=mailbox_id,
            address=address,
            name=name or owner.get_full_name(),
            provider=provider,
            scopes=scopes,
            checked_at=timezone.now(),
            credentials=credentials.encrypt(secrets, mailbox_id=mailbox_id),
        )
        Membership.objects.create(mailbox=mailbox, user=owner, role=Role.MANAGER)
        told("mailbox_connected", person=owner, mailbox=mailbox, provider=provider)
        return mailbox
    if not Membership.objects.filter(mailbox=mailbox, user=owner, role=Role.MANAGER).exists():
        raise PermissionError
    mailbox.provider = provider
    mailbox.scopes = scopes
    mailbox.status = Mailbox.Status.ACTIVE
    mailbox.checked_at = timezone.now()
    mailbox.credentials = credentials.encrypt(secrets, mailbox_id=mailbox.id)
    mailbox.credentials_version += 1  # kept connections of the old access are not used again
    TokenRefresh.objects.filter(mailbox=mailbox).delete()  # how the old access ended says nothing about the new one
    mailbox.save(update_fields=["provider", "scopes", "status", "checked_at", "credentials", "credentials_version"])
    told("mailbox_reconnected", person=owner, mailbox=mailbox, provider=provider)
    return mailbox


@transaction.atomic
def disconnect(mailbox: Mailbox, *, person: User) -> None:
    """Forget the access to a mailbox; its members, rules and history stay, for the day it is connected again."""
    Mailbox.objects.filter(pk=mailbox.pk).update(
        status=Mailbox.Status.DISCONNECTED,
        checked_at=timezone.now(),
        credentials=credentials.encrypt({}, mailbox_id=mailbox.pk),
        credentials_version=F("credentials_version") + 1,
    )
    told("mailbox_disconnected", person=person, mailbox=mailbox)
