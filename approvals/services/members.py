"""Who belongs to a mailbox: inviting, joining, changing a role, leaving. Each with its audit event."""

import secrets
from datetime import timedelta

from django.db import transaction
from django.utils import timezone

from accounts.models import Invitation, Mailbox, Membership, Role, User, digest_of
from accounts.problems import Problem, not_found
from approvals import audit
from approvals.models import Decision, PendingAction
from approvals.policies import counted, policy_of
from approvals.services.deciding import may
from approvals.states import Status

INVITATION_LIFETIME = timedelta(days=7)
LAST_MANAGER = "This is the only manager of the mailbox. Make somebody else a manager first."
USED_UP = "This invitation was used already, was withdrawn, or is too old. Ask who manages the mailbox for a new one."


@transaction.atomic
def invite(*, mailbox: Mailbox, person: User, email: str, role: Role) -> str:
    """Invite somebody by their address; returns the secret part of the link, which is known only now.

    Raises `forbidden`, and `conflict` for who is a member already. An earlier invitation to the same address ends.
    """
    _locked(mailbox, person)
    email = email.strip().lower()
    if Membership.objects.filter(mailbox=mailbox, user__email=email).exists():
        raise Problem("conflict", "This person is a member already.")
    Invitation.open().filter(mailbox=mailbox, email=email).update(expires_at=timezone.now())
    secret = secrets.token_urlsafe(32)
    invitation = Invitation.objects.create(
        mailbox=mailbox, email=email, role=role, digest=digest_of(secret), invited_by=person,
        expires_at=timezone.now() + INVITATION_LIFETIME,
    )  # fmt: skip
    audit.record(mailbox=mailbox, event="invited", actor=f"user:{person.pk}", invitation=invitation.pk, role=role.value)
    return secret


@transaction.atomic
def withdraw_invitation(*, mailbox: Mailbox, person: User, invitation_id: int) -> None:
    _locked(mailbox, person)
    if not Invitation.open().filter(mailbox=mailbox, pk=invitation_id).update(expires_at=timezone.now()):
        raise not_found("The invitation")
    audit.record(mailbox=mailbox, event="invitation_withdrawn", actor=f"user:{person.pk}", invitation=invitation_id)


def invitation_behind(secret: str) -> Invitation | None:
    """The invitation as long as it can be used: its inviter still manages the mailbox, and that is connected."""
    invitation = Invitation.open().select_related("mailbox", "invited_by").filter(digest=digest_of(secret)).first()
    if invitation is None or invitation.mailbox.status == Mailbox.Status.DISCONNECTED:
        return None
    return invitation if may(invitation.invited_by, invitation.mailbox, Role.MANAGER) else None


@transaction.atomic
def accept_invitation(*, secret: str, person: User | None) -> tuple[Invitation, User]:
    """Join by an invitation; who is not known yet becomes a person without a password, since the link proves the
    address as a sign-in link does. Raises `conflict` when it is used up, `forbidden` when it is somebody else's.
    """
    invitation = invitation_behind(secret)
    if invitation is None:
        raise Problem("conflict", USED_UP)
    if person is not None and person.email != invitation.email:
        raise Problem(
            "forbidden", f"This invitation is for {invitation.email}, and you are signed in as {person.email}."
        )
    # Only one of two simultaneous uses gets in.
    if not Invitation.open().filter(pk=invitation.pk).update(used_at=timezone.now()):
        raise Problem("conflict", USED_UP)
    member = person or User.objects.filter(email=invitation.email).first() or User.objects.create_user(invitation.email)
    if not member.is_active:
        raise Problem("forbidden", "This account is closed.")
    Membership.objects.get_or_create(mailbox=invitation.mailbox, user=member, defaults={"role": invitation.role})
    audit.record(
        mailbox=invitation.mailbox, event="joined", actor=f"user:{member.pk}", invitation=invitation.pk,
        role=invitation.role,
    )  # fmt: skip
    return invitation, member


@transaction.atomic
def change_role(*, mailbox: Mailbox, person: User, user_id: int, role: Role) -> None:
    """Let a member do more or less. Raises `forbidden`, `not_found`, and `conflict` for the last manager."""
    _locked(mailbox, person)
    member = _member(mailbox, user_id)
    before = Role(member.role)
    if before is role:
        return
    if before is Role.MANAGER:
        _another_manages(mailbox, member)
    gains = role.covers(Role.APPROVER) and not before.covers(Role.APPROVER)
    Membership.objects.filter(pk=member.pk).update(
        # What they said in an earlier time as an approver does not come back to life.
        role=role, created_at=timezone.now() if gains else member.created_at
    )  # fmt: skip
    audit.record(
        mailbox=mailbox, event="role_changed", actor=f"user:{person.pk}", member=user_id, role=role.value,
        before=before.value,
    )  # fmt: skip
    if before.covers(Role.APPROVER) and not role.covers(Role.APPROVER):
        _forget_decisions(mailbox, user_id)


@transaction.atomic
def remove_member(*, mailbox: Mailbox, person: User, user_id: int) -> None:
    """Take somebody out of a mailbox, or leave it oneself; their approvals of what waits count no more.

    What is approved already comes back to a person at the claim. Raises `forbidden`, `not_found`, `conflict`.
    """
    _locked(mailbox, None if person.pk == user_id else person)
    member = _member(mailbox, user_id)
    if member.role == Role.MANAGER:
        _another_manages(mailbox, member)
    member.delete()
    event = "left" if person.pk == user_id else "member_removed"
    audit.record(mailbox=mailbox, event=event, actor=f"user:{person.pk}", member=user_id)
    _forget_decisions(mailbox, user_id)


def _forget_decisions(mailbox: Mailbox, user_id: int) -> None:
    """Count anew what waits and they had approved; the history of each says that a voice was lost."""
    policy = policy_of(mailbox)
    waiting = PendingAction.objects.select_for_update(of=("self",)).filter(
        mailbox=mailbox, status=Status.PENDING, decisions__person=user_id,
        decisions__verdict=Decision.Verdict.APPROVED,
    )  # fmt: skip
    for action in waiting:
        given = counted(action, policy).values("person").distinct().count()
        if given != action.approvals_given:
            PendingAction.objects.filter(pk=action.pk, status=Status.PENDING).update(approvals_given=given)
            audit.record(mailbox=mailbox, event="approval_lost", actor="worker", action_id=action.pk, member=user_id)


def _locked(mailbox: Mailbox, person: User | None) -> None:
    """One change of the members at a time; raises `forbidden` when this person may not make it."""
    Mailbox.objects.select_for_update().get(pk=mailbox.pk)
    if person is not None and not may(person, mailbox, Role.MANAGER):
        raise Problem("forbidden", "Only who manages the mailbox may change who belongs to it.")


def _member(mailbox: Mailbox, user_id: int) -> Membership:
    member = Membership.objects.filter(mailbox=mailbox, user=user_id).first()
    if member is None:
        raise not_found("The member")
    return member


def _another_manages(mailbox: Mailbox, member: Membership) -> None:
    others = Membership.objects.filter(mailbox=mailbox, role=Role.MANAGER, user__is_active=True).exclude(pk=member.pk)
    if not others.exists():
        raise Problem("conflict", LAST_MANAGER)
