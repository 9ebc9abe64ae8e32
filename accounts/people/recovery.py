"""Recovery of a person's access if it is lost, or if somebody else may have it."""

from datetime import timedelta
from typing import Any

import structlog
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount
from allauth.usersessions.models import UserSession
from django.conf import settings
from django.contrib.sessions.models import Session
from django.core.exceptions import PermissionDenied
from django.core.mail import EmailMessage
from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now
from django.dispatch import Signal
from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.translation import gettext as _

from accounts.audit_hook import hold_audit, record_event
from accounts.infra.languages import in_language_of
from accounts.infra.transactions import retry_if_rolled_back
from accounts.models import ApiToken, Invitation, SignInLink, User
from accounts.people.address_proof import prove_account
from accounts.people.browsers import browser_ended, end_sessions

log = structlog.get_logger(__name__)

LINK_LIFETIME = timedelta(hours=1)
# Rights of a `person` were taken, in the open transaction, `by` a person or (None) a command: `of` a
# member, of staff, or of the account. Each receiver ends for good what its package has handed out for
# them without a token.
rights_taken = Signal()


def hold_account(person: User) -> None:
    """Lock the account of a request until the transaction ends; raise PermissionDenied if it was closed
    or recovered since it was read.

    A recovery waits for the transaction, and then removes what it made.
    """
    same = User.objects.select_for_update(no_key=True).filter(pk=person.pk, is_active=True)
    if same.filter(generation=person.generation).first() is None:
        raise PermissionDenied


def hold_programs(person: User) -> None:
    """Lock the tokens of a person, and then the audit of their mailboxes, as every writer does it. Without
    that, others who record events there could make a recovery fail again and again.
    """
    held = ApiToken.objects.filter(user=person).order_by("pk")
    list(held.select_for_update(no_key=True).values_list("pk"))
    hold_audit(held.exclude(mailboxes=None).values_list("mailboxes", flat=True))


@retry_if_rolled_back
@transaction.atomic
def recover(person: User, *, revoke_tokens: bool = False) -> str:
    """Remove every way to sign in that a person has, and return the secret of a new sign-in link.

    Their password, passkeys, one-time codes, recovery codes, linked accounts, open links and chat
    services are removed, and all their browsers are signed out. Their approvals of mail that has not
    left no longer count. Tokens of their programs stay unless
    `revoke_tokens` is set.
    """
    # Somebody else may have approved what has not left yet. This comes first, because it also locks
    # the account: what a request makes now must not stay (`hold_account`).
    User.objects.filter(pk=person.pk).update(generation=F("generation") + 1)
    if revoke_tokens:
        revoke_all(person)
    return _replace_ways_in(person)


def _replace_ways_in(person: User) -> str:
    counts: dict[str, Any] = {
        "sessions": end_sessions(person),
        "factors": Authenticator.objects.filter(user=person).delete()[0],
        "accounts": SocialAccount.objects.filter(user=person).delete()[0],
        "links": SignInLink.objects.filter(user=person, used_at=None).update(
            used_at=timezone.now()
        ),
        "password": int(person.has_usable_password()),
    }
    # This also changes the value that sessions are checked against, so a browser that is not listed
    # is signed out too.
    person.set_unusable_password()
    person.save(update_fields=["password"])
    record_event("person_recovered", person=None, subject=person, **counts)
    rights_taken.send(sender=None, person=person, by=None, of="account")
    prove_account(person, how="command")
    return SignInLink.issue(user=person, lifetime=LINK_LIFETIME)


@transaction.atomic
def revoke_all(person: User, *, by: User | None = None) -> None:
    """Revoke every token and sign-in of a person's programs, and end their sign-in links and the
    invitations that they made; without `by` by an operator's command.
    """
    hold_programs(person)
    SignInLink.objects.filter(user=person, used_at=None).update(used_at=timezone.now())
    Invitation.open().filter(invited_by=person).update(expires_at=timezone.now())
    for token in ApiToken.objects.filter(user=person, revoked_at=None):
        ApiToken.objects.filter(pk=token.pk).update(revoked_at=Now())
        record_event(
            "token_revoked",
            person=by,
            subject=person,
            mailboxes=token.mailboxes.all(),
            token=str(token.pk),
        )
    rights_taken.send(sender=None, person=person, by=by, of="account")


@transaction.atomic
def end_what_came_back() -> None:
    """Sign everybody out, and end all open links to sign in and invitations after a restore.

    Some had ended since the copy was made, such as the session of a thief, and nobody knows which.
    """
    UserSession.objects.all().delete()
    Session.objects.all().delete()
    browser_ended.send(sender=None, person=None, device="", others=True)
    SignInLink.objects.filter(used_at=None).update(used_at=timezone.now())
    Invitation.open().update(expires_at=timezone.now())


def revoke_everything() -> None:
    """Revoke the tokens of everybody, by an operator's command after a restore.

    Somebody without a token may have a chat service that was removed since.
    """
    for person in User.objects.order_by("pk"):
        revoke_all(person)


def mail_recovery(person: User) -> bool:
    """Mail a person that their access was reset; return True if the mail server took it."""
    with in_language_of(person):
        return _mail(person, "accounts/recovered_mail.txt", _("Your access to mailhub was reset"))


def mail_rights(person: User) -> bool:
    """Mail a person their new rights; return True if the mail server took it."""
    with in_language_of(person):
        return _mail(person, "accounts/rights_mail.txt", _("Your rights in mailhub were changed"))


def _mail(person: User, template: str, subject: str) -> bool:
    if not settings.SENDS_MAIL:
        return False
    text = render_to_string(template, {"person": person, "url": settings.MAILHUB_PUBLIC_URL})
    try:
        return bool(EmailMessage(subject, text, to=[person.email]).send())
    except OSError:  # the base of smtplib's errors
        log.exception("own_mail_failed")
        return False
