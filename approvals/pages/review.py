"""The review page: exactly the content that will leave, and the possible decisions."""

from collections import Counter
from typing import Any
from uuid import UUID

from allauth.mfa.models import Authenticator
from django.http import Http404, HttpResponse
from django.shortcuts import render

from accounts.access.roles import role_of
from accounts.access.signed_in import AuthenticatedRequest, ask_for_factor, signed_in_page
from accounts.infra.problems import Problem
from accounts.models import Role
from accounts.people.second_factor import FactorMissing
from accounts.people.step_up import factors_that_count
from approvals.core.states import Status
from approvals.core.types import get_kind
from approvals.gate import decide, find, notes, reconcile, revise, rulings, seen
from approvals.gate.differences import FieldChange
from approvals.gate.load import UNSEEN, ContentUnavailable, render_content
from approvals.gate.rules.conditions import (
    MAY_LOOK,
    approvals_of,
    approving_people,
    count_given,
)
from approvals.gate.rules.policy import (
    DECIDES,
    count_needed,
    find_hold,
    find_remaining_approvers,
    own_counts,
    policy_of,
    refusal_to_approve,
    undo_of,
)
from approvals.live import events
from approvals.models import PendingAction, ReviewText
from approvals.pages import discussion, history, listing
from approvals.pages.frame import find_leaving, read_frame, seconds_left
from approvals.pages.track_record import track_record_of

VIEWS = ("preview", "text", "source", "changes", "history")
# A longer text or source has its own address, so the page stays quick.
SHOWN_CHARACTERS = 40_000


@signed_in_page
def page(request: AuthenticatedRequest, action_id: UUID) -> HttpResponse:
    action = visible_action(request, action_id)
    picked = discussion.find_text(action.mailbox, request.GET.get("text", ""))
    return render_review(request, action, opened=True, picked=picked)


@signed_in_page
def peek(request: AuthenticatedRequest, action_id: UUID) -> HttpResponse:
    """Show only the message and its decision, beside the queue."""
    action = visible_action(request, action_id)
    role = role_of(request.user, action.mailbox)
    context = {**_about(request, action, role), "beside_queue": True, "view": "preview"}
    return render(request, "approvals/peek.html", context)


def visible_action(request: AuthenticatedRequest, action_id: UUID) -> PendingAction:
    """Return an action of this person's mailboxes; raises 404 for foreign and missing ones."""
    action = find.find(find.visible_to(request.user), action_id)
    if action is None:
        raise Http404
    return action


def render_review(
    request: AuthenticatedRequest,
    action: PendingAction,
    *,
    problem: Problem | None = None,
    shown: tuple[str, int] | None = None,
    opened: bool = False,
    picked: ReviewText | None = None,
    typed_comment: str = "",
    in_line: bool = False,
) -> HttpResponse:
    """Render the page, with the problem on top and its status if a decision was refused.

    `shown` is the digest and revision of the posted form; `opened` is True if the person has just
    opened the page. It shows how the present content differs from the form, or from the revision
    that the person saw last. `picked` is a text for the note of a decision, `typed_comment` a
    comment that was refused. `in_line` makes its forms lead to the next mail, as a form that was
    posted from there does.
    """
    person = request.user
    frame = read_frame(person)
    mailboxes = frame.mailboxes
    about = _about(request, action, frame.roles.get(action.mailbox_id))
    changed_meanwhile = shown is not None and shown[0] != action.digest
    known = about["last_seen"] if opened else None
    if shown is not None and changed_meanwhile:
        known = shown[1]
    context = {
        **about,
        "waiting": listing.count_pending(mailboxes, listing.mine(person)),
        "several": len(mailboxes) > 1,
        "place": listing.place_of(mailboxes, action, order=frame.order, where=listing.mine(person))
        if action.status == Status.PENDING
        else None,
        "others": events.find_present([action.pk], mailboxes=[action.mailbox], but=person).get(
            action.pk, []
        ),
        "toast": find_leaving(person, but=action),
        "problem": problem,
        "picked": picked,
        "typed_comment": typed_comment,
        "in_line": in_line or request.POST.get("then") == "line",
        "changed_meanwhile": changed_meanwhile,
        "difference": _difference(action, known),
        "event": events.write_mark(frame.event),
        "own_pause": frame.own_pause,
    }
    if not problem:
        # The page follows the mail until it is out, also without JavaScript.
        held = context["hold"] is not None
        context["refresh"] = _refresh_after(action, context["undo_seconds"], held=held)
    return render(
        request, "approvals/review.html", context, status=problem.status if problem else 200
    )


def render_stale(request: AuthenticatedRequest, action: PendingAction) -> HttpResponse:
    """Render the page for a form without the digest and revision of the present content."""
    return render_review(request, action, problem=Problem("conflict", decide.STALE), shown=("", 0))


def render_refusal(
    request: AuthenticatedRequest,
    action: PendingAction,
    problem: Problem,
    *,
    shown: tuple[str, int] | None = None,
) -> HttpResponse:
    """Render the page of the action as it is now, with the reason of the refusal."""
    if isinstance(problem, FactorMissing):
        return ask_for_factor(request)
    action.refresh_from_db()
    return render_review(request, action, problem=problem, shown=shown)


def _about(
    request: AuthenticatedRequest, action: PendingAction, role: Role | None
) -> dict[str, Any]:
    person = request.user
    view = request.GET.get("view")
    current, kind = action.current, get_kind(action.kind)
    policy = policy_of(action.mailbox)
    last_seen = seen.last_seen(action, person)
    content, unavailable = None, None
    try:
        content = render_content(action)
    except ContentUnavailable as error:
        unavailable = error
    decides = role is not None and role.covers(DECIDES)
    refusal = refusal_to_approve(person, action, policy)
    if refusal is None and (content is None or not current.is_ours):
        refusal = Problem("conflict", UNSEEN)
    needed, given = count_needed(action, policy), count_given(action)
    decisions = list(action.decisions.select_related("person"))
    has_approved = any(each.person_id == person.pk for each in decisions) and (
        person.pk in approving_people(action, approvals_of(action))
    )
    files = {file["sha256"] for file in (current.payload or {}).get("attachments", ())}
    opened = seen.find_opened(action, person) if files else set()
    waits_for_others = action.status == Status.PENDING and (needed > 1 or refusal is not None)
    remaining = find_remaining_approvers(action, policy) if waits_for_others else []
    return {
        "action": action,
        "preview": current.preview,
        "payload": current.payload,
        "content": content,
        "unavailable": unavailable,
        "cut": SHOWN_CHARACTERS,
        "cut_slice": f":{SHOWN_CHARACTERS}",
        "opened": opened,
        "unopened": len(files - opened),
        "remarks": notes.remarks_of(action),
        "track_record": track_record_of(action)
        if action.status == Status.PENDING and action.proposer_name
        else None,
        "kind_template": kind.template,
        "aside_template": kind.aside_template if content else "",
        "later_template": kind.later_template,
        **_discussion(action, may_decide=decides),
        "view": view if view in VIEWS else "preview",
        "views": VIEWS,
        "domains": _domains(current.preview),
        "may_decide": decides,
        "may_read_story": person.is_staff or role is Role.MANAGER,
        "may_approve": refusal is None and not has_approved,
        "has_approved": has_approved,
        "remaining": remaining,
        "refusal": refusal,
        "is_risky": is_risky(action),
        "last_seen": last_seen,
        "is_seen": last_seen == action.revision,
        "by_passkey": refusal is None
        and is_risky(action)
        and Authenticator.Type.WEBAUTHN in factors_that_count(request),
        "may_edit": content is not None and decides and revise.may_be_edited(action),
        "changes": _difference(action, 1) if view == "changes" else (),
        "past": history.load_history(action) if view == "history" or not content else (),
        "decisions": decisions,
        "attempts": list(action.attempts.all()),
        "may_have_left": reconcile.may_have_left(action),
        "also_left": reconcile.find_unshown_send(action),
        "looks_again_at": action.next_probe_at if action.mailbox.status in MAY_LOOK else None,
        "restored": decide.mark_of_restore(action),
        "not_again": rulings.may_order_again(action, person)
        if action.status == Status.UNKNOWN
        else None,
        "undo_seconds": seconds_left(action),
        "hold": find_hold(action, policy)
        if action.status in (Status.PENDING, Status.APPROVED)
        else None,
        "undo_window": int(undo_of(policy).total_seconds()),
        "needed": needed,
        "given": given,
        "missing": needed - given,
        "four_eyes": not own_counts(action, policy),
        "mark": f"{action.status} {action.revision} {action.approval_round} {action.approvals_given}",
    }


def _discussion(action: PendingAction, *, may_decide: bool) -> dict[str, Any]:
    may_assign = may_decide and not action.is_final
    return {
        "comments": discussion.list_comments(action),
        "may_comment": may_decide and action.purged_at is None,
        "assigned": discussion.find_assigned(action),
        "may_assign": may_assign,
        "assignable": discussion.find_assignable(action) if may_assign else (),
        "texts": discussion.texts_by_purpose(action.mailbox)
        if may_decide and action.status == Status.PENDING
        else {},
    }


def is_risky(action: PendingAction) -> bool:
    """Return True if an approval needs a fresh sign-in."""
    return any(
        warning["severity"] == "risk" for warning in action.current.preview.get("warnings", ())
    )


def _difference(action: PendingAction, revision: int | None) -> tuple[FieldChange, ...]:
    if revision is None or not 0 < revision < action.revision:
        return ()
    try:
        return revise.changes_since(action, revision)
    except Problem:  # the content cannot be read; the page says so
        return ()


def _domains(preview: dict[str, Any]) -> list[tuple[str, int]]:
    tally = Counter(each["address"].rpartition("@")[2] for each in preview.get("targets", ()))
    return sorted(tally.items(), key=lambda each: (-each[1], each[0]))


def _refresh_after(action: PendingAction, undo_seconds: int, *, held: bool) -> int:
    match action.status:
        case Status.APPROVED if undo_seconds:
            return undo_seconds + 1
        case Status.APPROVED:
            return 60 if held else 5
        case Status.EXECUTING:
            return 2
    return 0
