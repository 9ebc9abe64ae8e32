"""The page of the story of one action: the lines of `manage.py explain`."""

from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse
from django.shortcuts import render

from accounts.access.roles import has_role, role_of
from accounts.access.signed_in import AuthenticatedRequest, signed_in_page
from accounts.models import Role
from approvals.models import PendingAction
from approvals.pages.review import visible_action
from approvals.reports.story import tell_story


@signed_in_page
def page(request: AuthenticatedRequest, action_id: UUID) -> HttpResponse:
    """Show it to managers of the mailbox and to staff, who may belong to no mailbox."""
    action = _find_action(request, action_id)
    is_member = role_of(request.user, action.mailbox) is not None
    context = {"lines": tell_story(action), "action": action if is_member else None}
    return render(request, "approvals/story.html", context)


def _find_action(request: AuthenticatedRequest, action_id: UUID) -> PendingAction:
    if request.user.is_staff:
        action = PendingAction.objects.select_related("mailbox").filter(pk=action_id).first()
        if action is None:
            raise Http404
        return action
    action = visible_action(request, action_id)
    if not has_role(request.user, action.mailbox, Role.MANAGER):
        raise PermissionDenied
    return action
