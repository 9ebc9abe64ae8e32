"""Proof that a person reads mail at an address: of their own account, or of a mailbox that they
connect.

The code for a mailbox is mailed to its address. The work is the same for known and unknown
addresses.
"""

import hashlib
import hmac
import secrets
from datetime import timedelta
from typing import Any

import structlog
from allauth.account.signals import authentication_step_completed
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount
from django.conf import settings
from django.core.mail import EmailMessage
from django.db import transaction
from django.db.models import F
from django.dispatch import receiver
from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.crypto import salted_hmac
from django.utils.translation import gettext as _

from accounts.access.quotas import Quota, take
from accounts.audit_hook import record_event
from accounts.infra.problems import Problem
from accounts.infra.texts import translatable
from accounts.models import AddressCode, User

log = structlog.get_logger(__name__)

LETTERS = (
    "BCDFGHJKLMNPQRSTVWXZ"  # no vowels, so no code is a word; no letter that looks like a digit
)
CODE_LIFETIME = timedelta(minutes=15)
PROOF_LIFETIME = timedelta(hours=1)
HOUR = 3600  # seconds
MOST_TRIES = 5
TOO_MANY = translatable(
    "Too many codes were sent within an hour. Nothing was sent now. Try again later."
)


def prove_account(person: User, *, how: str) -> None:
    """Record once that the account's address is its person's; `how` is a word for the audit."""
    now = timezone.now()
    with transaction.atomic():
        if User.objects.filter(pk=person.pk, address_proven_at=None).update(address_proven_at=now):
            person.address_proven_at = now
            record_event(
                "address_proven",
                person=None if how == "command" else person,
                subject=person,
                method=how,
            )


def is_untouched(person: User) -> bool:
    """Return True if nobody has ever signed in to this account or added a way to sign in."""
    return (
        person.last_login is None
        and not person.has_usable_password()
        and not Authenticator.objects.filter(user=person).exists()
        and not SocialAccount.objects.filter(user=person).exists()
    )


def is_proven(person: User, address: str) -> bool:
    """Return True if this person has proven the address: as that of their account, or by a code
    within the last hour.
    """
    address = address.strip().lower()
    if person.email == address and person.address_proven_at:
        return True
    return AddressCode.objects.filter(
        person=person, address=address, proven_at__gt=timezone.now() - PROOF_LIFETIME
    ).exists()


def mail_code(person: User, address: str) -> bool:
    """Mail a new code to the address and end earlier ones; return True if the mail server took it.

    Raises Problem `rate_limited` if this person or this address had too many codes within an hour.
    """
    address = address.strip().lower()
    per_person, per_address = _quotas()
    try:
        take(per_person, f"user:{person.pk}")
        take(per_address, hashlib.sha256(address.encode()).hexdigest())
    except Problem:
        record_event("address_code_limited", person=person)
        raise
    code = "-".join("".join(secrets.choice(LETTERS) for _ in range(4)) for _ in range(2))
    _keep(person, address, code)
    subject = _("%(code)s is your code to connect this mailbox") % {"code": code}
    text = render_to_string(
        "accounts/address_code_mail.txt",
        {"code": code, "person": person.with_address, "address": address},
    )
    try:
        return bool(EmailMessage(subject, text, to=[address]).send())
    except OSError:  # the base of smtplib's errors
        log.exception("address_code_not_mailed")
        return False


def _quotas() -> tuple[Quota, Quota]:
    most = settings.MAILHUB_ADDRESS_MAILS_PER_HOUR
    return (
        Quota(name="codes-of-person", amount=most, seconds=HOUR, refusal=TOO_MANY),
        Quota(name="codes-to-address", amount=most, seconds=HOUR, refusal=TOO_MANY),
    )


@transaction.atomic
def _keep(person: User, address: str, code: str) -> None:
    now = timezone.now()
    AddressCode.objects.filter(person=person, address=address, proven_at=None).update(
        expires_at=now
    )
    AddressCode.objects.create(
        person=person,
        address=address,
        digest=_digest(person, address, code),
        expires_at=now + CODE_LIFETIME,
    )
    record_event("address_code_mailed", person=person)


def prove_by_code(person: User, address: str, given: str) -> bool:
    """Compare a code with the newest one that was mailed.

    Return True if it proves the address, which it can do once.
    """
    address, now = address.strip().lower(), timezone.now()
    good = AddressCode.objects.filter(
        person=person, address=address, proven_at=None, expires_at__gt=now, tries__lt=MOST_TRIES
    )
    newest = good.order_by("-pk").first()
    # Count the attempt before the comparison, so that simultaneous attempts are counted too.
    if newest is None or not good.filter(pk=newest.pk).update(tries=F("tries") + 1):
        return False
    told_code = "".join(letter for letter in given.upper() if letter.isalpha())
    expected = _digest(person, address, f"{told_code[:4]}-{told_code[4:]}")
    if not hmac.compare_digest(newest.digest, expected):
        return False
    with transaction.atomic():
        if not AddressCode.objects.filter(pk=newest.pk, proven_at=None).update(proven_at=now):
            return False
        record_event("address_proven", person=person, method="code")
    return True


def _digest(person: User, address: str, code: str) -> str:
    """Return a keyed digest; without the key, a database reader could guess the short codes."""
    return salted_hmac(
        "mailhub address code", f"{person.pk}:{address}:{code}", algorithm="sha256"
    ).hexdigest()


@receiver(authentication_step_completed)
def _record_proof_by_mail(sender: Any, user: Any, method: str, **_: Any) -> None:
    """Record a proof if a mailed code or link was used to sign in to an untouched account."""
    if (
        method in ("code", "password_reset")
        and user.address_proven_at is None
        and is_untouched(user)
    ):
        prove_account(user, how=method)
