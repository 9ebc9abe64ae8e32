"""Grants: what a person lets one sign-in of a program do. A grant is an `ApiToken` with a client.

The library's tokens of a sign-in name its grant as their family, and are worth nothing without it.
So a later sign-in of the same program changes nothing for an earlier one.
"""

import secrets
from collections.abc import Collection, Iterable
from datetime import timedelta
from typing import Any
from uuid import UUID

from allauth.idp.oidc.models import Client, Token
from django.db import transaction
from django.db.models import F, QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from accounts.access.roles import connected_of
from accounts.audit_hook import record_event
from accounts.models import (
    CHAT_NAME,
    SCOPE_ROLES,
    SCOPES,
    STAFF_SCOPES,
    USUAL_SCOPES,
    ApiToken,
    Mailbox,
    Membership,
    Role,
    User,
    allowed_scopes,
    digest_of,
)
from accounts.oauth.programs import name_of
from accounts.people.recovery import hold_account, hold_programs, rights_taken

NAME_LENGTH = 100


def offered_scopes(person: User, asked: Collection[str]) -> list[str]:
    """Return the scopes among `asked` that a person can give; the usual ones if nothing was asked.

    A person gives nothing that they may not do themselves in any mailbox.
    """
    roles = {
        Role(role)
        for role in Membership.objects.filter(
            user=person, mailbox__in=connected_of(person)
        ).values_list("role", flat=True)
    }
    return [
        scope
        for scope in SCOPES
        if scope in allowed_scopes(person, asked or USUAL_SCOPES)
        and any(role.covers(SCOPE_ROLES.get(scope, Role.VIEWER)) for role in roles)
    ]


def find_live(token: Token) -> QuerySet[ApiToken]:
    """Return the grant of the sign-in that a code or token belongs to, or nothing if it ended."""
    family = UUID((token.data or {})["family"])
    return ApiToken.objects.filter(pk=family, client=token.client_id, revoked_at=None)


@transaction.atomic
def give(
    person: User,
    client: Client,
    *,
    scopes: Iterable[str],
    mailboxes: Collection[Mailbox],
    lifetime: timedelta,
    unproven: bool = False,
) -> ApiToken:
    """Store what a person allows a program in one sign-in; earlier sign-ins stay as they are."""
    hold_account(person)  # it also keeps two simultaneous answers from taking the same name
    grant = ApiToken.objects.create(
        user=person,
        client=client,
        unproven=unproven,
        name=_free_name(person, client),
        # Nobody knows a secret for it, so it signs nobody in as an `mh_` token.
        digest=digest_of(secrets.token_urlsafe(32)),
        hint="",
        scopes=sorted(set(scopes)),
        expires_at=timezone.now() + lifetime,
    )
    grant.mailboxes.set(mailboxes)
    record_event(
        "program_connected",
        person=person,
        mailboxes=mailboxes,
        token=str(grant.pk),
        scopes=grant.scopes,
    )
    return grant


def _free_name(person: User, client: Client) -> str:
    """Return a name that nothing of this person has ever had: a proposer is found by its name, and
    a sign-in must not see the actions of another.
    """
    taken = {CHAT_NAME, *ApiToken.objects.filter(user=person).values_list("name", flat=True)}
    name, number = name_of(client)[:NAME_LENGTH], 1
    while name in taken:
        number += 1
        name = f"{name_of(client)[: NAME_LENGTH - 8]} {number}"
    return name


@transaction.atomic
def narrow(token: ApiToken, *, scopes: Collection[str], mailboxes: Collection[Mailbox]) -> ApiToken:
    """Take scopes and mailboxes away from a token or a connected program; nothing is ever added."""
    token = ApiToken.objects.select_for_update(no_key=True).get(pk=token.pk)
    kept = {mailbox.pk for mailbox in mailboxes}
    removed = [mailbox for mailbox in token.mailboxes.all() if mailbox.pk not in kept]
    if not removed and set(token.scopes) <= set(scopes):
        return token  # a form of the same rights again must not fill the audit of each mailbox
    token.scopes = sorted(set(token.scopes) & set(scopes))
    token.generation += 1
    token.save(update_fields=["scopes", "generation"])
    token.mailboxes.remove(*removed)
    record_event(
        "token_narrowed",
        person=token.user,
        mailboxes=[*token.mailboxes.all(), *removed],
        token=str(token.pk),
        scopes=token.scopes,
    )
    return token


@transaction.atomic
def take_mailbox(person: User, mailbox: Mailbox, *, by: User, role: Role | None = None) -> None:
    """Take a mailbox away from the tokens of a person who is no longer a member; with a lower `role`,
    from those with a scope that needs more. They must not work again if the right comes back.
    """
    held = ApiToken.objects.filter(user=person, mailboxes=mailbox, revoked_at=None)
    for token in held.select_for_update(no_key=True, of=("self",)).order_by("pk"):
        if role is None or not all(
            role.covers(SCOPE_ROLES.get(scope, Role.VIEWER)) for scope in token.scopes
        ):
            ApiToken.objects.filter(pk=token.pk).update(generation=F("generation") + 1)
            token.mailboxes.remove(mailbox)
            _record_narrowed(token, person, [mailbox], by)
    rights_taken.send(sender=None, person=person, by=by, of="member")


@transaction.atomic
def take_staff_scopes(person: User, *, by: User) -> None:
    """Take the scopes of staff from the tokens of a person who leaves the staff, for the same reason,
    or joins it: those of earlier versions were only asleep.
    """
    hold_programs(person)
    for token in ApiToken.objects.filter(user=person, revoked_at=None).order_by("pk"):
        if STAFF_SCOPES & set(token.scopes):
            token.scopes = sorted(set(token.scopes) - STAFF_SCOPES)
            ApiToken.objects.filter(pk=token.pk).update(scopes=token.scopes)
            _record_narrowed(token, person, token.mailboxes.all(), by)
    rights_taken.send(sender=None, person=person, by=by, of="staff")


def _record_narrowed(token: ApiToken, person: User, mailboxes: Iterable[Mailbox], by: User) -> None:
    record_event(
        "token_narrowed",
        person=by,
        subject=person,
        mailboxes=mailboxes,
        token=str(token.pk),
        scopes=token.scopes,
    )


@transaction.atomic
def revoke(token: ApiToken) -> None:
    """End a token or a sign-in at once, with everything that its program holds."""
    _end(token, person=token.user)


@transaction.atomic
def end_sign_in(token: Token) -> None:
    """End the sign-in that a code or token belongs to, because its program says so or a copy is used.

    The lock makes a simultaneous `issue` come before, so its tokens are deleted, or after, so it
    finds the sign-in ended.
    """
    grant = find_live(token).select_for_update(no_key=True).first()
    if grant is not None:
        _end(grant, person=None, subject=grant.user, actor=f"token:{grant.pk}")


def _end(token: ApiToken, **by: Any) -> None:
    ApiToken.objects.filter(pk=token.pk).update(revoked_at=Now())
    if token.client_id is not None:
        held = Token.objects.filter(user=token.user, client=token.client_id)
        held.filter(data__family=token.pk.hex).delete()
    record_event("token_revoked", mailboxes=token.mailboxes.all(), token=str(token.pk), **by)
