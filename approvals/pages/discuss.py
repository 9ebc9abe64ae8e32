"""Comments on an action, and the person who takes care of it. Nothing here decides anything."""

from uuid import UUID

from django.http import HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from accounts.access.signed_in import AuthenticatedRequest, signed_in_action
from accounts.infra.foreign_text import parse_number
from accounts.infra.problems import Problem
from accounts.models import User
from approvals.pages import discussion
from approvals.pages.review import render_review, visible_action


@signed_in_action
def comment(request: AuthenticatedRequest, action_id: UUID) -> HttpResponse:
    """Add a comment; after a refusal the page keeps the typed text."""
    action = visible_action(request, action_id)
    text = request.POST.get("text", "")
    try:
        discussion.add_comment(action=action, person=request.user, text=text)
    except Problem as problem:
        return render_review(request, action, problem=problem, typed_comment=text)
    return redirect(f"{reverse('review', args=[action_id])}#comments")


@signed_in_action
def assign(request: AuthenticatedRequest, action_id: UUID) -> HttpResponse:
    """Assign the action to a person, or to nobody."""
    action = visible_action(request, action_id)
    chosen = request.POST.get("person", "")
    try:
        discussion.assign(action=action, person=request.user, to=_find_person(chosen))
    except Problem as problem:
        return render_review(request, action, problem=problem)
    return redirect(f"{reverse('review', args=[action_id])}#comments")


def _find_person(chosen: str) -> User | None:
    """Return the person with this id, None for an empty one; raises `invalid_input`."""
    if not chosen:
        return None
    key = parse_number(chosen)
    person = None if key is None else User.objects.filter(pk=key).first()
    if person is None:
        raise Problem("invalid_input", "Choose a person who may approve in this mailbox.")
    return person
