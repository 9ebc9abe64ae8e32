"""The pages of members: inviting, joining, changing roles, leaving."""

import re
from typing import Any
from urllib.parse import urlencode

import structlog
from allauth.account.internal.flows.login import perform_login
from allauth.account.models import Login
from django import forms
from django.conf import settings
from django.contrib import messages
from django.core.mail import EmailMessage
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_http_methods

from accounts.access.signed_in import AuthenticatedRequest, signed_in_action
from accounts.forms import MailboxAddressField
from accounts.infra.problems import Problem
from accounts.models import Mailbox, Role, User
from approvals.audit.form import DAY
from approvals.pages.mailboxes import members as services
from approvals.pages.mailboxes.mailbox_views import for_members

log = structlog.get_logger(__name__)


class InviteForm(forms.Form):
    email = MailboxAddressField(
        max_length=254, error_messages={"invalid": gettext_lazy("This is not an e-mail address.")}
    )
    role = forms.ChoiceField(choices=Role.choices)


class RoleForm(forms.Form):
    role = forms.ChoiceField(
        choices=Role.choices,
        error_messages={
            "invalid_choice": gettext_lazy("This role does not exist. Choose another one.")
        },
    )
    first_day = forms.DateField(**DAY)
    last_day = forms.DateField(**DAY)


# mailhub mails invitations in this name, and mail programs make links of addresses and of hosts.
NO_NAME = re.compile(r"[@:/\\<>]|\w\.\w\w")


class JoinForm(forms.Form):
    name = forms.CharField(max_length=100, required=False)

    def clean_name(self) -> str:
        """Return the name in one line, without characters that nobody sees."""
        given: str = self.cleaned_data["name"]
        name = " ".join("".join(each for each in given if each.isprintable()).split())
        if NO_NAME.search(name):
            raise forms.ValidationError(_("A name is no address and no link. Write only the name."))
        return name


def _describe_errors(form: forms.Form) -> Problem:
    wrong = " ".join(str(error) for errors in form.errors.values() for error in errors)
    return Problem("invalid_input", wrong)


@signed_in_action
@for_members
@sensitive_variables("secret")
def invite(request: AuthenticatedRequest, mailbox: Mailbox) -> HttpResponse:
    """Create an invitation and mail its link to the invited address.

    The page never holds the link.
    """
    form = InviteForm(request.POST)
    if not form.is_valid():
        raise _describe_errors(form)
    wanted = form.cleaned_data
    secret = services.invite(
        mailbox=mailbox,
        person=request.user,
        email=wanted["email"],
        role=Role(wanted["role"]),
    )
    link = settings.MAILHUB_PUBLIC_URL + reverse("invitation", args=[secret])
    letter = {"mailbox": mailbox, "link": link, "person": request.user.with_address}
    mailed = settings.SENDS_MAIL and _mail_invitation(letter, to=wanted["email"])
    context = {
        "mailbox": mailbox,
        "email": wanted["email"],
        "mailed": mailed,
        "sends_mail": settings.SENDS_MAIL,
    }
    return render(request, "approvals/invited.html", context)


@sensitive_variables()
def _mail_invitation(letter: dict[str, Any], *, to: str) -> bool:
    """Mail the invitation, with one attempt. Return True if the mail server took it."""
    subject = _("%(person)s invites you to %(mailbox)s in mailhub") % letter
    text = render_to_string("approvals/invitation_mail.txt", letter)
    try:
        return bool(EmailMessage(subject, text, to=[to]).send())
    except OSError:  # smtplib's errors are subclasses
        log.exception("invitation_not_mailed")
        return False


@signed_in_action
@for_members
def withdraw(request: AuthenticatedRequest, mailbox: Mailbox, invitation_id: int) -> HttpResponse:
    services.withdraw_invitation(mailbox=mailbox, person=request.user, invitation_id=invitation_id)
    return redirect("mailbox", mailbox.pk)


@signed_in_action
@for_members
def change_role(request: AuthenticatedRequest, mailbox: Mailbox, user_id: int) -> HttpResponse:
    form = RoleForm(request.POST)
    if not form.is_valid():
        raise _describe_errors(form)
    wanted = {**form.cleaned_data, "role": Role(form.cleaned_data["role"])}
    services.change_role(mailbox=mailbox, person=request.user, user_id=user_id, **wanted)
    return redirect("mailbox", mailbox.pk)


@signed_in_action
@for_members
def remove(request: AuthenticatedRequest, mailbox: Mailbox, user_id: int) -> HttpResponse:
    """Remove a member, or leave: a former member sees nothing of the mailbox any more."""
    services.remove_member(mailbox=mailbox, person=request.user, user_id=user_id)
    if user_id == request.user.pk:
        return redirect("mailboxes")
    return redirect("mailbox", mailbox.pk)


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
        form = JoinForm(request.POST)
        try:
            if not form.is_valid():
                raise _describe_errors(form)
            offer, member = services.accept_invitation(
                secret=secret, person=person, name=form.cleaned_data["name"]
            )
        except Problem as refused:
            problem = refused
        else:
            if person is not None:
                messages.success(
                    request, _("You are now a member of %(mailbox)s.") % {"mailbox": offer.mailbox}
                )
                return redirect("mailbox", offer.mailbox_id)
            return perform_login(request, Login(user=member, redirect_url=reverse("welcome")))
    found = services.invitation_behind(secret)
    context = {
        "offer": found,
        "problem": problem,
        "sign_in_first": person is None and found is not None and services.has_account(found.email),
        "to_sign_in": f"{reverse('sign_in')}?{urlencode({'next': request.path})}",
    }
    status = problem.status if problem else 200 if found else 410
    return render(request, "approvals/invitation.html", context, status=status)
