"""The pages of a mailbox: its rules, its members, and disconnecting it."""

from typing import cast
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from accounts.connect.connecting import disconnect
from accounts.infra.problems import Problem
from accounts.models import Invitation, Mailbox, Membership, Role, User
from accounts.people.step_up import ask_again, is_fresh
from approvals.lifecycle import queries
from approvals.models import ApprovalPolicy
from approvals.pauses import switch
from approvals.rules import change, sentences
from approvals.rules.change import RULES
from approvals.rules.form import RulesForm
from approvals.rules.policy import policy_of


def visible_mailbox(request: HttpRequest, mailbox_id: UUID, *, need: Role = Role.VIEWER) -> Mailbox:
    """Return a mailbox of this person, connected or not.

    Raises 404 for a foreign mailbox exactly as for a missing one, and 403 if the role is too small.
    """
    membership = (
        Membership.objects.select_related("mailbox")
        .filter(mailbox=mailbox_id, user=cast(User, request.user))
        .first()
    )
    if membership is None:
        raise Http404
    if not Role(membership.role).covers(need):
        raise Problem("forbidden", _("Only who manages the mailbox may do this."))
    return membership.mailbox


@login_required
@never_cache
@require_safe
def index(request: HttpRequest) -> HttpResponse:
    """Show the mailboxes and whether they work; disconnected ones too, to be connected again."""
    mine = list(Mailbox.objects.filter(members=cast(User, request.user)))
    return render(
        request,
        "approvals/mailboxes.html",
        {"mailboxes": mine, "paused": switch.paused_among(mine)},
    )


@login_required
@never_cache
@require_safe
def page(request: HttpRequest, mailbox_id: UUID) -> HttpResponse:
    return render_mailbox(request, visible_mailbox(request, mailbox_id))


def render_mailbox(
    request: HttpRequest, mailbox: Mailbox, *, problem: Problem | None = None
) -> HttpResponse:
    """Render the page, with the problem on top if an action was refused."""
    person = cast(User, request.user)
    policy = policy_of(mailbox)
    members = (
        Membership.objects.filter(mailbox=mailbox).select_related("user").order_by("user__email")
    )
    context = {
        "mailbox": mailbox,
        "problem": problem,
        "manages": any(each.user_id == person.pk and each.role == Role.MANAGER for each in members),
        "members": members,
        "roles": Role.choices,
        "invitations": Invitation.open().filter(mailbox=mailbox),
        "sentences": sentences.sentences(policy),
        "hindrances": sentences.hindrances(policy),
        "past": queries.rule_changes(mailbox),
        "paused": switch.is_paused(mailbox),
        "everything_paused": switch.everything_is_paused(),
        "unfinished": queries.unfinished(mailbox),
    }
    return render(
        request, "approvals/mailbox.html", context, status=problem.status if problem else 200
    )


@login_required
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def rules(request: HttpRequest, mailbox_id: UUID) -> HttpResponse:
    """Change the rules. Rules that nobody can meet are pointed out before they are saved."""
    try:
        mailbox = visible_mailbox(request, mailbox_id, need=Role.MANAGER)
    except Problem as problem:
        return render_mailbox(request, visible_mailbox(request, mailbox_id), problem=problem)
    policy = policy_of(mailbox)
    initial = {name: getattr(policy, name) for name in RULES} | {
        "open_days": list(policy.open_days)
    }
    form = RulesForm(request.POST or None, initial=initial)
    hindrances: list[str] = []
    if request.method == "POST" and form.is_valid():
        wanted = {name: form.cleaned_data[name] for name in RULES}
        hindrances = sentences.hindrances(ApprovalPolicy(mailbox=mailbox, **wanted))
        if not hindrances or request.POST.get("anyway") == "yes":
            change.change_rules(mailbox=mailbox, person=cast(User, request.user), rules=wanted)
            messages.success(request, _("The rules hold from now on, for what waits too."))
            return redirect("mailbox", mailbox.pk)
    context = {"mailbox": mailbox, "form": form, "hindrances": hindrances}
    return render(request, "approvals/rules.html", context, status=422 if form.errors else 200)


@login_required
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def leave_off(request: HttpRequest, mailbox_id: UUID) -> HttpResponse:
    """Disconnect the mailbox.

    Its access data is deleted here. Approved actions go back to a person; pending ones stay until
    they expire.
    """
    try:
        mailbox = visible_mailbox(request, mailbox_id, need=Role.MANAGER)
    except Problem as problem:
        return render_mailbox(request, visible_mailbox(request, mailbox_id), problem=problem)
    if request.method == "POST":
        disconnect(mailbox, person=cast(User, request.user))
        messages.success(request, _("Disconnected. Nothing leaves this mailbox any more."))
        return redirect("mailboxes")
    return render(
        request,
        "approvals/disconnect.html",
        {"mailbox": mailbox, "unfinished": queries.unfinished(mailbox)},
    )


@login_required
@require_POST
def pause(request: HttpRequest, mailbox_id: UUID) -> HttpResponse:
    """Pause or resume one mailbox, for its managers."""
    try:
        mailbox = visible_mailbox(request, mailbox_id, need=Role.MANAGER)
    except Problem as problem:
        return render_mailbox(request, visible_mailbox(request, mailbox_id), problem=problem)
    actor = f"user:{cast(User, request.user).pk}"
    if request.POST.get("pause") == "on":
        switch.pause(mailbox=mailbox, actor=actor)
    elif is_fresh(request):
        switch.resume(mailbox=mailbox, actor=actor)
    else:
        return ask_again(request, back=request.path.removesuffix("pause/"))
    return redirect("mailbox", mailbox.pk)
