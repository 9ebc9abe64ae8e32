"""The files of an action as a person opens them: a page with the text or picture, and a download.

Nothing here runs or fetches. The bytes are those of the stored source that leaves, found by their
hash, so a page of an earlier revision finds nothing.
"""

from contextlib import suppress
from uuid import UUID

from csp.decorators import csp_update
from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.utils.http import content_disposition_header

from accounts.access.signed_in import AuthenticatedRequest, signed_in_page
from approvals.lifecycle import opened, queries
from approvals.models import PendingAction
from approvals.pages import listing
from tools.mail.message.compose import Attachment, attachments_in
from tools.mail.message.extract import CannotExtract, text_from
from tools.mail.parsers import Unparsable
from tools.sending.payload import SORTS, MailPayload
from tools.stored import Unreadable

SHOWN_CHARACTERS = 20_000
PICTURE_BYTES = 8 * 1024**2
# By the first bytes, because a name and a type are only claims. Browsers run nothing in these.
PICTURES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}


@signed_in_page
def show(request: AuthenticatedRequest, action_id: UUID, sha256: str) -> HttpResponse:
    """Show one file, and record that this person has opened it."""
    action, file = _find(request, action_id, sha256)
    text, problem = None, None
    if _picture_type(file) is None:
        try:
            text = text_from(file.content, media_type=file.type, name=file.name)
        except CannotExtract as error:
            problem = str(error)
        except Unparsable:
            problem = "busy"
    opened.record_opened(action, request.user, sha256=sha256)
    context = {
        "action": action,
        "file": file,
        "size": len(file.content),
        "picture": _picture_type(file),
        "text": text[:SHOWN_CHARACTERS] if text else text,
        "is_cut": bool(text) and len(text or "") > SHOWN_CHARACTERS,
        "problem": problem,
        "waiting": listing.count_waiting(request.user),
    }
    return render(request, "tools/file.html", context)


@signed_in_page
@csp_update({"sandbox": True, "default-src": ["'none'"]})  # type: ignore[arg-type]
def download(request: AuthenticatedRequest, action_id: UUID, sha256: str) -> HttpResponse:
    """Return the bytes as a file that no browser interprets; a picture may be shown by the page."""
    action, file = _find(request, action_id, sha256)
    shown = _picture_type(file) if request.GET.get("show") == "1" else None
    response = HttpResponse(file.content, content_type=shown or "application/octet-stream")
    response["Content-Disposition"] = (
        content_disposition_header(shown is None, file.name or "attachment") or "attachment"
    )
    response["X-Content-Type-Options"] = "nosniff"
    if shown is None:
        opened.record_opened(action, request.user, sha256=sha256)
    return response


def _find(
    request: AuthenticatedRequest, action_id: UUID, sha256: str
) -> tuple[PendingAction, Attachment]:
    """Return the action and its file; raises Http404 if this person may not see it, or it is gone."""
    action = queries.find(queries.visible_to(request.user), action_id)
    payload = action.current.payload if action and action.kind in SORTS else None
    if action is not None and payload:
        with suppress(Unreadable, KeyError):
            source = queries.blob_of(action, MailPayload.from_json(payload).source_sha256)
            for file in attachments_in(source):
                if file.sha256 == sha256:
                    return action, file
    raise Http404


def _picture_type(file: Attachment) -> str | None:
    if len(file.content) > PICTURE_BYTES:
        return None
    return next((kind for first, kind in PICTURES.items() if file.content.startswith(first)), None)
