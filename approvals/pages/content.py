"""Addresses for a message's content: HTML for the sandboxed frame, whole text and source."""

import re
from contextlib import suppress
from typing import Literal
from uuid import UUID

from csp.decorators import csp_replace
from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.views.decorators.clickjacking import xframe_options_sameorigin

from accounts.access.signed_in import AuthenticatedRequest, signed_in_page
from accounts.infra.problems import Problem
from accounts.views.downloads import as_download
from approvals.core.types import Rendered
from approvals.gate.load import ContentUnavailable, render_content
from approvals.pages.review import visible_action

# The message may bring inline styles and pictures of its own; nothing is fetched and nothing runs.
BODY_POLICY = {
    "default-src": ["'none'"],
    "script-src": ["'none'"],
    "style-src": ["'unsafe-inline'"],
    "img-src": ["data:"],
    "connect-src": ["'none'"],
    "frame-src": ["'none'"],
    "form-action": ["'none'"],
    "base-uri": ["'none'"],
    "frame-ancestors": ["'self'"],
    "sandbox": True,
}

# A link whose text is its address.
WRITTEN_OUT = re.compile(r'<a (?=href="(?:mailto:|tel:)?+([^"]*+)"[^<>]*+>\1</a>)')


@signed_in_page
@xframe_options_sameorigin
@csp_replace(BODY_POLICY)  # type: ignore[arg-type]  # its types know views without arguments only
def body(request: AuthenticatedRequest, action_id: UUID) -> HttpResponse:
    """Return only the HTML of the message, for the sandboxed frame of the review page."""
    content = _read(request, action_id)
    if content.html is None:
        raise Http404
    html = WRITTEN_OUT.sub("<a data-shown ", content.html)
    return render(request, "approvals/body.html", {"html": html})


@signed_in_page
def download_whole(
    request: AuthenticatedRequest, action_id: UUID, part: Literal["text", "source"]
) -> HttpResponse:
    """Return the whole text or source, as a file that no browser interprets."""
    content: str = getattr(_read(request, action_id), part)
    name = f"{action_id}.{'txt' if part == 'text' else 'eml'}"
    try:
        return as_download(request.user.pk, name, content.encode())
    except Problem as problem:
        page = render(request, "refused.html", {"reason": problem.detail}, status=problem.status)
        page["Retry-After"] = str(problem.retry_after)
        return page


def _read(request: AuthenticatedRequest, action_id: UUID) -> Rendered:
    """Return the content; raises Http404 if it is gone or cannot be read now, as its page says."""
    action = visible_action(request, action_id)
    with suppress(ContentUnavailable):
        content = render_content(action)
        if content is not None:
            return content
    raise Http404
