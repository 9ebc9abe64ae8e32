"""The pages of members: inviting, joining, changing roles, leaving."""

from collections.abc import Callable
from typing import Any, cast
from urllib.parse import urlencode
from uuid import UUID

import structlog
from allauth.account.internal.flows.login import perform_login
from allauth.account.models import Login
from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.mail import EmailMessage
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_http_methods, require_POST

from accounts.forms import MailboxAddressField
from accounts.infra.problems import Problem
from accounts.models import Mailbox, Role, User
from approvals.mailboxes import members as services
from approvals.mailboxes.mailbox_views import render_mailbox, visible_mailbox

log = structlog.get_logger(__name__)


class InviteForm(forms.Form):
    email = MailboxAddressField(
        max_length=254, error_messages={"invalid": gettext_lazy("This is not an e-mail address.")}
    )
    role = forms.ChoiceField(choices=Role.choices)


class RoleForm(forms.Form):
    role = forms.ChoiceField(choices=Role.choices)


@login_required
@never_cache
@require_POST
@sensitive_variables("secret")
def invite(request: HttpRequest, mailbox_id: UUID) -> HttpResponse:
    """Create an invitation and mail its link to the invited address.

    The page never holds the link.
    """
    mailbox = visible_mailbox(request, mailbox_id)
    form = InviteForm(request.POST)
    if not form.is_valid():
        wrong = " ".join(str(error) for errors in form.errors.values() for error in errors)
        return render_mailbox(request, mailbox, problem=Problem("invalid_input", wrong))
    wanted = form.cleaned_data
    try:
        secret = services.invite(
            mailbox=mailbox,
            person=cast(User, request.user),
            email=wanted["email"],
            role=Role(wanted["role"]),
        )
    except Problem as problem:
        return render_mailbox(request, mailbox, problem=problem)
    link = settings.MAILHUB_PUBLIC_URL + reverse("invitation", args=[secret])
    letter = {"mailbox": mailbox, "link": link, "person": request.user}
    mailed = settings.SENDS_MAIL and _mailed(letter, to=wanted["email"])
    context = {
        "mailbox": mailbox,
        "email": wanted["email"],
        "mailed": mailed,
        "sends_mail": settings.SENDS_MAIL,
    }
    return render(request, "approvals/invited.html", context)


@sensitive_variables()
def _mailed(letter: dict[str, Any], *, to: str) -> bool:
    """Mail the invitation, with one attempt. Return True if the mail server took it."""
    subject = _("%(person)s invites you to %(mailbox)s in mailhub") % letter
    text = render_to_string("approvals/invitation_mail.txt", letter)
    try:
        return bool(EmailMessage(subject, text, to=[to]).send())
    except OSError:  # smtplib's errors are subclasses
        log.exception("invitation_not_mailed")
        return False


@login_required
@require_POST
def withdraw(request: HttpRequest, mailbox_id: UUID, invitation_id: int) -> HttpResponse:
    return _changed(
        request,
        mailbox_id,
        lambda mailbox, person: services.withdraw_invitation(
            mailbox=mailbox, person=person, invitation_id=invitation_id
        ),
    )


@login_required
@require_POST
def change_role(request: HttpRequest, mailbox_id: UUID, user_id: int) -> HttpResponse:
    form = RoleForm(request.POST)
    if not form.is_valid():
        problem = Problem("invalid_input", _("There is no such role."))
        return render_mailbox(request, visible_mailbox(request, mailbox_id), problem=problem)
    role = Role(form.cleaned_data["role"])
    return _changed(
        request,
        mailbox_id,
        lambda mailbox, person: services.change_role(
            mailbox=mailbox, person=person, user_id=user_id, role=role
        ),
    )


@login_required
@require_POST
def remove(request: HttpRequest, mailbox_id: UUID, user_id: int) -> HttpResponse:
    """Remove a member, or leave: a former member sees nothing of the mailbox any more."""
    return _changed(
        request,
        mailbox_id,
        lambda mailbox, person: services.remove_member(
            mailbox=mailbox, person=person, user_id=user_id
        ),
        afterwards="mailboxes" if user_id == cast(User, request.user).pk else "",
    )


def _changed(
    request: HttpRequest,
    mailbox_id: UUID,
    change: Callable[[Mailbox, User], None],
    afterwards: str = "",
) -> HttpResponse:
    mailbox = visible_mailbox(request, mailbox_id)
    try:
        change(mailbox, cast(User, request.user))
    except Problem as problem:
        return render_mailbox(request, mailbox, problem=problem)
    return redirect(afterwards) if afterwards else redirect("mailbox", mailbox.pk)


@never_cache
@sensitive_variables("secret")
@require_http_methods(["GET", "HEAD", "POST"])
def invitation(request: HttpRequest, secret: str) -> HttpResponse:
    """Show the offer; the button joins.

    A new person is signed in, because only they could read the link; a person with an account signs
    in first, in their own way.
    """
    person = request.user if isinstance(request.user, User) else None
    problem = None
    if request.method == "POST":
        try:
            offer, member = services.accept_invitation(secret=secret, person=person)
        except Problem as refused:
            problem = refused
        else:
            back = reverse("mailbox", args=[offer.mailbox_id])
            if person is not None:
                messages.success(
                    request, _("You belong to %(mailbox)s now.") % {"mailbox": offer.mailbox}
                )
                return redirect(back)
            return perform_login(request, Login(user=member, redirect_url=back))
    found = services.invitation_behind(secret)
    context = {
        "offer": found,
        "problem": problem,
        "sign_in_first": person is None and found is not None and services.has_account(found.email),
        "to_sign_in": f"{reverse('sign_in')}?{urlencode({'next': request.path})}",
    }
    status = problem.status if problem else 200 if found else 410
    return render(request, "approvals/invitation.html", context, status=status)
