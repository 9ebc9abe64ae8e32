"""Members of a mailbox: inviting, joining, changing a role, leaving.

Each change has its audit event.
"""

import hashlib
import secrets
import unicodedata
from datetime import date, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from accounts.access.quotas import Quota, take
from accounts.access.roles import has_role
from accounts.audit_hook import record_event
from accounts.infra.problems import Problem, not_found
from accounts.infra.texts import translatable
from accounts.infra.transactions import retry_if_rolled_back
from accounts.models import Invitation, Mailbox, Membership, Role, User, digest_of
from accounts.oauth.grants import take_mailbox
from accounts.people.address_proof import prove_account
from accounts.people.recovery import hold_account
from approvals.audit import chain
from approvals.audit.form import day_after, midnight
from approvals.gate.rules.change import record_lost, recount_approvals

INVITATION_LIFETIME = timedelta(days=7)
HOUR = 3600  # seconds
TOO_MANY = translatable(
    "Too many invitations were made within an hour. Nothing was sent now. Try again later."
)
LAST_MANAGER = translatable(
    "Nobody else manages this mailbox without a last day. Make somebody else a manager first."
)
USED_UP = translatable(
    "This invitation was already used or withdrawn, or it is too old. Ask a manager of the mailbox for a new one."
)


def invite(*, mailbox: Mailbox, person: User, email: str, role: Role) -> str:
    """Invite a person by their address; return the secret part of the link.

    The secret is known only now. The function does the same work for addresses with and without an
    account. Raises `forbidden`, `conflict` for a member, and `rate_limited`. An earlier invitation
    of the address to this mailbox ends.
    """
    email = email.strip().lower()
    # Before the count: attempts of other members must not use up the managers' limit.
    _refuse_others(mailbox, person)
    try:
        _count(mailbox, person, email)
    except Problem:
        record_event("invitation_limited", person=person, mailbox=mailbox)
        raise
    return _invite(mailbox=mailbox, person=person, email=email, role=role)


def _count(mailbox: Mailbox, person: User, email: str) -> None:
    """Count an invitation for the person, the mailbox and the address; raises `rate_limited`."""
    address = hashlib.sha256(email.encode()).hexdigest()
    for name, amount, subject in (
        ("invitations-of-person", settings.MAILHUB_INVITATIONS_PER_HOUR, f"user:{person.pk}"),
        ("invitations-to-mailbox", settings.MAILHUB_MAILBOX_INVITATIONS_PER_HOUR, str(mailbox.pk)),
        ("invitations-of-address", settings.MAILHUB_ADDRESS_MAILS_PER_HOUR, address),
    ):
        take(Quota(name=name, amount=amount, seconds=HOUR, refusal=TOO_MANY), subject)


@retry_if_rolled_back
@transaction.atomic
def _invite(*, mailbox: Mailbox, person: User, email: str, role: Role) -> str:
    hold_account(person)
    _lock_mailbox(mailbox, person)
    if Membership.objects.filter(mailbox=mailbox, user__email=email).exists():
        raise Problem("conflict", "This person is already a member.")
    Invitation.open().filter(mailbox=mailbox, email=email).update(expires_at=timezone.now())
    secret = secrets.token_urlsafe(32)
    invitation = Invitation.objects.create(
        mailbox=mailbox,
        email=email,
        role=role,
        digest=digest_of(secret),
        invited_by=person,
        expires_at=timezone.now() + INVITATION_LIFETIME,
    )
    record_event(
        "invited", person=person, mailbox=mailbox, invitation=invitation.pk, role=role.value
    )
    return secret


@retry_if_rolled_back
@transaction.atomic
def new_link(*, mailbox: Mailbox, email: str) -> str:
    """Give the open invitation of this address a new secret, for an operator who hands it over.

    The old secret ends. Raises `not_found` if there is no open invitation.
    """
    invitation = (
        Invitation.open()
        .select_for_update(no_key=True)
        .filter(mailbox=mailbox, email=email.strip().lower())
        .first()
    )
    if invitation is None:
        raise not_found("The invitation does not exist, or you may not see it.")
    secret = secrets.token_urlsafe(32)
    Invitation.objects.filter(pk=invitation.pk).update(digest=digest_of(secret))
    record_event("invitation_link_made", person=None, mailbox=mailbox, invitation=invitation.pk)
    return secret


@retry_if_rolled_back
@transaction.atomic
def withdraw_invitation(*, mailbox: Mailbox, person: User, invitation_id: int) -> None:
    _lock_mailbox(mailbox, person)
    if (
        not Invitation.open()
        .filter(mailbox=mailbox, pk=invitation_id)
        .update(expires_at=timezone.now())
    ):
        raise not_found("The invitation does not exist, or you may not see it.")
    chain.record(
        mailbox=mailbox,
        event="invitation_withdrawn",
        actor=f"user:{person.pk}",
        invitation=invitation_id,
    )


def invitation_behind(secret: str) -> Invitation | None:
    """Return the invitation if it can be used.

    Its inviter must still manage the mailbox, with an open account, and the mailbox must be
    connected.
    """
    invitation = (
        Invitation.open()
        .select_related("mailbox", "invited_by")
        .filter(digest=digest_of(secret), invited_by__is_active=True)
        .first()
    )
    if invitation is None or invitation.mailbox.status == Mailbox.Status.DISCONNECTED:
        return None
    return invitation if has_role(invitation.invited_by, invitation.mailbox, Role.MANAGER) else None


def has_account(email: str) -> bool:
    """Return True if a person has this address here, with an open or a closed account."""
    return User.objects.filter(email=email).exists()


def accept_invitation(
    *, secret: str, person: User | None, name: str = ""
) -> tuple[Invitation, User]:
    """Join by an invitation, as the signed-in person or as a new person with a new account of this
    name.

    A link never signs anybody in as an existing person. A new account has no password, and its
    address is proven, because only that address got the link. Raises `conflict` if the invitation
    is used up, `forbidden` if it is for another person, `unauthenticated` if the invited person has
    to sign in first.
    """
    invitation = invitation_behind(secret)
    if invitation is None:
        raise Problem("conflict", USED_UP)
    try:
        return _join(invitation, person, name)
    except Problem as problem:
        if problem.code == "forbidden":
            record_event(
                "invitation_refused",
                person=person,
                mailbox=invitation.mailbox,
                invitation=invitation.pk,
            )
        raise


def _is_taken(name: str, mailbox: Mailbox) -> bool:
    members = User.objects.filter(
        pk__in=Membership.on_any_day.filter(mailbox=mailbox).values("user")
    )
    return _fold(name) in {_fold(str(each)) for each in members}


def _fold(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold()


@retry_if_rolled_back
@transaction.atomic
def _join(invitation: Invitation, person: User | None, name: str) -> tuple[Invitation, User]:
    if person is not None and person.email != invitation.email:
        raise Problem(
            "forbidden",
            translatable(
                "This invitation is for %(invited)s, and you are signed in as %(person)s.",
                invited=invitation.email,
                person=person.email,
            ),
        )
    if person is None and has_account(invitation.email):
        raise Problem(
            "unauthenticated",
            translatable("Sign in as %(invited)s first, then join.", invited=invitation.email),
        )
    if person is None and _is_taken(name, invitation.mailbox):
        raise Problem(
            "conflict",
            translatable(
                "Another member has this name. Write yours so that people can tell you apart."
            ),
        )
    # If the link is used twice at the same time, only one use succeeds.
    if not Invitation.open().filter(pk=invitation.pk).update(used_at=timezone.now()):
        raise Problem("conflict", USED_UP)
    member = person or User.objects.create_user(invitation.email, first_name=name)
    of_member = {"mailbox": invitation.mailbox, "user": member}
    if not Membership.objects.filter(**of_member).exists():
        over, _ = Membership.on_any_day.filter(**of_member).delete()
        Membership.objects.create(**of_member, role=invitation.role)
        if over:
            _end_invitations(invitation.mailbox, member)
            take_mailbox(member, invitation.mailbox, by=member)
    record_event(
        "joined",
        person=member,
        mailbox=invitation.mailbox,
        invitation=invitation.pk,
        role=invitation.role,
    )
    prove_account(member, how="invitation")
    return invitation, member


@retry_if_rolled_back
@transaction.atomic
def change_role(
    *,
    mailbox: Mailbox,
    person: User,
    user_id: int,
    role: Role,
    first_day: date | None = None,
    last_day: date | None = None,
) -> None:
    """Change the role of a member, and the days on which it holds, in the person's time zone.

    Raises `forbidden`, `not_found`, `invalid_input` for days in the wrong order, and `conflict` for
    the last manager, who has no last day either.
    """
    _lock_mailbox(mailbox, person)
    member = _member(mailbox, user_id)
    # A form of a manager in another time zone does not move the days that it shows.
    starts_at, ends_at = member.starts_at, member.ends_at
    if first_day != member.first_day:
        starts_at = midnight(first_day) if first_day else None
    if last_day != member.last_day:
        ends_at = day_after(last_day) if last_day else None
    if starts_at and ends_at and ends_at <= starts_at:
        raise Problem("invalid_input", "The last day is before the first day.")
    before = Role(member.role)
    if (before, member.starts_at, member.ends_at) == (role, starts_at, ends_at):
        return
    if before is Role.MANAGER and (role is not before or starts_at or ends_at):
        _another_manages(mailbox, member)
    may_approve = Membership.objects.filter(pk=member.pk, role__in=Role.at_least(Role.APPROVER))
    had = may_approve.exists()
    is_over = not Membership.objects.filter(pk=member.pk).exists()
    _end_invitations(mailbox, member.user)
    held: dict[str, Any] = {"role": role, "starts_at": starts_at, "ends_at": ends_at}
    Membership.on_any_day.filter(pk=member.pk).update(**held)
    if not role.covers(before) or not (had and may_approve.exists()):
        # Approvals rest on this row. With another row, none of them can ever count again, also if
        # the rules or the role change back.
        member.delete()
        Membership.objects.create(mailbox=mailbox, user_id=user_id, **held)
    lost = recount_approvals(mailbox, user_id)
    chain.record(
        mailbox=mailbox,
        event="role_changed",
        actor=f"user:{person.pk}",
        member=user_id,
        role=role.value,
        before=before.value,
        since=str(first_day or ""),
        until=str(last_day or ""),
        anchored=True,
    )
    record_lost(mailbox, user_id, lost)
    if is_over or not role.covers(before):
        take_mailbox(member.user, mailbox, by=person, role=None if is_over else role)


@retry_if_rolled_back
@transaction.atomic
def remove_member(*, mailbox: Mailbox, person: User, user_id: int) -> None:
    """Remove a member from a mailbox, or leave it; their approvals no longer count.

    Actions that are approved already go back to a person at the claim. Raises `forbidden`,
    `not_found`, `conflict`.
    """
    _lock_mailbox(mailbox, None if person.pk == user_id else person)
    member = _member(mailbox, user_id)
    if member.role == Role.MANAGER:
        _another_manages(mailbox, member)
    member.delete()
    _end_invitations(mailbox, member.user)
    lost = recount_approvals(mailbox, user_id)
    event = "left" if person.pk == user_id else "member_removed"
    chain.record(
        mailbox=mailbox, event=event, actor=f"user:{person.pk}", member=user_id, anchored=True
    )
    record_lost(mailbox, user_id, lost)
    take_mailbox(member.user, mailbox, by=person)


def _end_invitations(mailbox: Mailbox, person: User) -> None:
    """End the open invitations to and of a person: a newer word of a manager counts, and those of a
    former manager must not work again.
    """
    theirs = Q(email=person.email) | Q(invited_by=person)
    Invitation.open().filter(theirs, mailbox=mailbox).update(expires_at=timezone.now())


def manages_lastingly(person: User, mailbox: Mailbox) -> bool:
    """Return True if this person manages the mailbox, and no last day ends that: a manager with one
    could remove it, or invite another account of their own.
    """
    held = Membership.objects.filter(mailbox=mailbox, user=person)
    return held.filter(role=Role.MANAGER, ends_at=None).exists()


def _lock_mailbox(mailbox: Mailbox, person: User | None) -> None:
    Mailbox.objects.select_for_update(no_key=True).get(pk=mailbox.pk)
    if person is not None:
        _refuse_others(mailbox, person)


def _refuse_others(mailbox: Mailbox, person: User) -> None:
    if not manages_lastingly(person, mailbox):
        raise Problem("forbidden", "Only managers without a last day can change the members.")


def _member(mailbox: Mailbox, user_id: int) -> Membership:
    member = Membership.on_any_day.filter(mailbox=mailbox, user__pk=user_id).first()
    if member is None:
        raise not_found("The member does not exist, or you may not see it.")
    return member


def _another_manages(mailbox: Mailbox, member: Membership) -> None:
    """Raise `conflict` unless somebody else manages the mailbox now and has no last day."""
    others = Membership.objects.filter(
        mailbox=mailbox, role=Role.MANAGER, ends_at=None, user__is_active=True
    ).exclude(pk=member.pk)
    if not others.exists():
        raise Problem("conflict", LAST_MANAGER)
