"""The pages of a mailbox: its rules, its members, and disconnecting it."""

from collections.abc import Callable, Container
from functools import wraps
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _

from accounts.access.roles import held_mailboxes
from accounts.access.signed_in import (
    AuthenticatedRequest,
    ask_for_factor,
    signed_in_action,
    signed_in_form,
    signed_in_page,
)
from accounts.connect.connecting import disconnect
from accounts.infra.problems import Problem
from accounts.infra.time_zones import zone_of_reader
from accounts.models import Invitation, Mailbox, Membership, Role
from accounts.people.second_factor import (
    lacks_factor,
    managers_need_factor,
    needs_factor_later,
)
from accounts.people.step_up import ask_again, is_fresh
from approvals.gate import find
from approvals.gate.pauses import switch
from approvals.gate.rules import change, sentences
from approvals.gate.rules.change import RULES
from approvals.gate.rules.form import RulesForm
from approvals.gate.rules.policy import DAYS, policy_of
from approvals.models import ApprovalPolicy


def for_members(
    view: Callable[..., HttpResponse], *, roles: Container[str] = Role
) -> Callable[..., HttpResponse]:
    """Give the view the mailbox of a member, connected or not; show a refusal on its page.

    A foreign mailbox is answered with 404, exactly as a missing one.
    """

    @wraps(view)
    def wrapper(request: AuthenticatedRequest, mailbox_id: UUID, **more: Any) -> HttpResponse:
        held = Membership.objects.select_related("mailbox")
        membership = get_object_or_404(held, mailbox=mailbox_id, user=request.user)
        try:
            if membership.role not in roles:
                raise Problem("forbidden", "Only managers of this mailbox can do this.")
            return view(request, membership.mailbox, **more)
        except Problem as problem:
            return render_mailbox(request, membership.mailbox, problem=problem)

    return wrapper


def for_managers(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    return for_members(view, roles=(Role.MANAGER,))


@signed_in_page
def index(request: AuthenticatedRequest) -> HttpResponse:
    """Show the mailboxes and whether they work; disconnected ones too, to be connected again."""
    mine = list(held_mailboxes(request.user))
    return render(
        request,
        "approvals/mailboxes.html",
        {"mailboxes": mine, "paused": switch.find_paused(mine)},
    )


@signed_in_page
@for_members
def page(request: AuthenticatedRequest, mailbox: Mailbox) -> HttpResponse:
    return render_mailbox(request, mailbox)


def render_mailbox(
    request: AuthenticatedRequest, mailbox: Mailbox, *, problem: Problem | None = None
) -> HttpResponse:
    """Render the page, with the problem on top if an action was refused."""
    person = request.user
    policy = policy_of(mailbox)
    members = (
        Membership.on_any_day.filter(mailbox=mailbox).select_related("user").order_by("user__email")
    )
    mine = [each for each in members if each.user_id == person.pk and each.role == Role.MANAGER]
    context = {
        "mailbox": mailbox,
        "problem": problem,
        "manages": bool(mine),
        "changes_members": any(each.ends_at is None for each in mine),
        "members": members,
        "roles": Role.choices,
        "invitations": Invitation.open().filter(mailbox=mailbox),
        "needs_factor_later": needs_factor_later(person),
        "managers_need_factor": managers_need_factor(),
        "sentences": sentences.sentences(policy),
        "hindrances": sentences.hindrances(policy),
        "past": find.rule_changes(mailbox),
        "paused": switch.is_paused(mailbox),
        "everything_paused": switch.is_everything_paused(),
    }
    return render(
        request, "approvals/mailbox.html", context, status=problem.status if problem else 200
    )


@signed_in_form
@for_managers
def rules(request: AuthenticatedRequest, mailbox: Mailbox) -> HttpResponse:
    """Change the rules. Rules that nobody can meet are pointed out before they are saved."""
    policy = policy_of(mailbox)
    initial = {name: getattr(policy, name) for name in RULES} | {
        "open_days": list(policy.open_days or DAYS)
    }
    if not policy.open_days and policy.open_from is None:  # nobody has chosen a zone yet
        initial["time_zone"] = zone_of_reader()
    form = RulesForm(request.POST or None, initial=initial)
    hindrances: list[str] = []
    if request.method == "POST" and form.is_valid():
        wanted = {name: form.cleaned_data[name] for name in RULES}
        hindrances = sentences.hindrances(ApprovalPolicy(mailbox=mailbox, **wanted))
        if not hindrances or request.POST.get("anyway") == "yes":
            change.change_rules(mailbox=mailbox, person=request.user, rules=wanted)
            messages.success(request, _("Rules saved. They apply now, also to pending actions."))
            return redirect("mailbox", mailbox.pk)
    context = {"mailbox": mailbox, "form": form, "hindrances": hindrances}
    return render(request, "approvals/rules.html", context, status=422 if form.errors else 200)


@signed_in_form
@for_managers
def leave_off(request: AuthenticatedRequest, mailbox: Mailbox) -> HttpResponse:
    """Disconnect the mailbox.

    Its access data is deleted here. Approved actions go back to a person; pending ones stay until
    they expire.
    """
    if request.method == "POST":
        disconnect(mailbox, person=request.user)
        messages.success(request, _("Mailbox disconnected. Nothing leaves it any more."))
        return redirect("mailboxes")
    return render(
        request,
        "approvals/disconnect.html",
        {"mailbox": mailbox, "unfinished": find.count_unfinished(mailbox)},
    )


@signed_in_action
@for_managers
def pause(request: AuthenticatedRequest, mailbox: Mailbox) -> HttpResponse:
    """Pause or resume one mailbox, for its managers."""
    actor = f"user:{request.user.pk}"
    if request.POST.get("pause") == "on":
        switch.pause(mailbox=mailbox, actor=actor)
    elif lacks_factor(request.user):
        return ask_for_factor(request)
    elif is_fresh(request):
        switch.resume(mailbox=mailbox, actor=actor)
    else:
        return ask_again(request, back=request.path.removesuffix("pause/"))
    return redirect("mailbox", mailbox.pk)
