"""Files as a person opens them before a decision: drawn pages or the text, and a download.

Nothing of a file runs or is interpreted in the browser. The bytes of a file that leaves are those of
the stored source, found by their hash, so a page of an earlier revision finds nothing. Files of the
conversation are read from the mailbox.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from csp.decorators import csp_update
from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from accounts.access.auth import caller_of_session
from accounts.access.provider_calls import limit_waiting
from accounts.access.roles import get_mailbox
from accounts.access.signed_in import AuthenticatedRequest, signed_in_page
from accounts.infra.database import give_back_connection
from accounts.infra.problems import Problem
from accounts.models import Role
from accounts.views.downloads import as_download
from approvals.gate import find, load, seen
from tools.mail.message import pictures
from tools.mail.message.compose import Attachment, attachments_in
from tools.mail.message.extract import CannotExtract, is_two_kinds, kind_of, shows_more, text_from
from tools.mail.parsers import Turns, Unparsable
from tools.reading import reads
from tools.sending.payload import SORTS, MailPayload

SHOWN_CHARACTERS = 20_000
SHOWN_PAGES = 30
# Reading a mail takes four times its size, and a page has many pictures. One of the turns is for other
# people. The pictures of a page take half a minute in all.
_reading = Turns(2, of_person=1)
READ_SECONDS = 60.0


def _says_why_not(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Show a page with the reason if the mailbox does not answer, or no process can read the file."""

    @wraps(view)
    def answer(request: AuthenticatedRequest, action_id: UUID, **more: Any) -> HttpResponse:
        try:
            return view(request, action_id, **more)
        except Problem as problem:
            context = {"problem": problem, "action": action_id}
            page = render(request, "tools/refused.html", context, status=problem.status)
            if problem.retry_after:
                page["Retry-After"] = str(problem.retry_after)
            return page

    return answer


@signed_in_page
@_says_why_not
def show(request: AuthenticatedRequest, action_id: UUID, sha256: str) -> HttpResponse:
    """Show one file, and record that this person has opened it."""
    action, file = _find(request, action_id, sha256)
    address = reverse("action_file", args=[action_id, sha256])
    response = _render(request, action, file, pages=f"{address}%s.png", whole=f"{address}download/")
    if _is_opened_by_person(request):
        seen.record_opened(action, request.user, sha256=sha256)
    return response


@signed_in_page
@_says_why_not
def picture(request: AuthenticatedRequest, action_id: UUID, sha256: str, page: int) -> HttpResponse:
    """Return a page of the file as PNG."""
    _, file = _find(request, action_id, sha256)
    return _draw(request, file, page)


@signed_in_page
@csp_update({"sandbox": True, "default-src": ["'none'"]})
@_says_why_not
def download(request: AuthenticatedRequest, action_id: UUID, sha256: str) -> HttpResponse:
    """Return the bytes as a file that no browser interprets; this opens it too."""
    action, file = _find(request, action_id, sha256)
    response = as_download(request.user.pk, file.name, file.content)
    if _is_opened_by_person(request):
        seen.record_opened(action, request.user, sha256=sha256)
    return response


def _is_opened_by_person(request: AuthenticatedRequest) -> bool:
    """Return False for a picture, a prefetch, a HEAD, and a page of another site: nobody sees them.

    Browsers say so since 2023, over TLS. Without the headers (https://www.w3.org/TR/fetch-metadata/)
    the request counts.
    """
    headers = request.headers
    return (
        request.method == "GET"
        and headers.get("Sec-Fetch-Dest", "document") == "document"
        and headers.get("Sec-Fetch-Site", "none") in ("same-origin", "none")
        and "prefetch" not in headers.get("Sec-Purpose", "")
    )


@signed_in_page
@_says_why_not
def show_received(request: AuthenticatedRequest, action_id: UUID) -> HttpResponse:
    """Show a file of the conversation: the `attachment` of the `mail`, both ids of the provider."""
    action, file = _fetch_received(request, action_id)
    asked = urlencode({name: request.GET.get(name, "") for name in ("mail", "attachment")})
    address = reverse("received_file", args=[action_id])
    return _render(
        request,
        action,
        file,
        pages=f"{address}%s.png?{asked.replace('%', '%%')}",
        whole=f"{address}download/?{asked}",
    )


@signed_in_page
@_says_why_not
def received_picture(request: AuthenticatedRequest, action_id: UUID, page: int) -> HttpResponse:
    _, file = _fetch_received(request, action_id)
    return _draw(request, file, page)


@signed_in_page
@csp_update({"sandbox": True, "default-src": ["'none'"]})
@_says_why_not
def download_received(request: AuthenticatedRequest, action_id: UUID) -> HttpResponse:
    _, file = _fetch_received(request, action_id)
    return as_download(request.user.pk, file.name, file.content)


def _render(
    request: AuthenticatedRequest, action: Any, file: Attachment, *, pages: str, whole: str
) -> HttpResponse:
    """Return the page of a file. `pages` is the address of a drawn page, with `%s` for its number."""
    context: dict[str, Any] = {
        "action": action,
        "file": file,
        "size": len(file.content),
        "whole": whole,
    }
    with limit_waiting(request.user.pk):
        context |= _preview(file)
    context["pages"] = [pages % number for number in context.get("pages", ())]
    return render(request, "tools/file.html", context)


def _draw(request: AuthenticatedRequest, file: Attachment, page: int) -> HttpResponse:
    if not 1 <= page <= SHOWN_PAGES or not _can_be_drawn(file):
        raise Http404
    try:
        with limit_waiting(request.user.pk):
            png = pictures.draw(file.content, page).png
    except Unparsable as error:
        error.raise_if_busy()
        raise Http404 from None
    return HttpResponse(png, content_type="image/png")


def _can_be_drawn(file: Attachment) -> bool:
    return pictures.can_be_drawn(file.content, name=file.name, media_type=file.type)


def _preview(file: Attachment) -> dict[str, Any]:
    """Return the pages that can be drawn, else the text, else why there is neither."""
    if _can_be_drawn(file):
        try:
            pages = pictures.draw(file.content).pages
        except Unparsable as error:
            error.raise_if_busy()
            return {"broken": True}
        return {
            "pages": range(1, min(pages, SHOWN_PAGES) + 1),
            "more": max(0, pages - SHOWN_PAGES),
            "has_more": file.content.startswith(pictures.PDF)
            and shows_more("application/pdf", file.content),
        }
    if is_two_kinds(file.type, file.name):
        return {}  # the recipient's program may choose the other one
    given = {"media_type": file.type, "name": file.name}
    try:
        text = text_from(file.content, **given)
        has_more = shows_more(kind_of(**given), file.content)
    except CannotExtract:
        return {}
    return {
        "text": text[:SHOWN_CHARACTERS],
        "is_cut": len(text) > SHOWN_CHARACTERS,
        "has_more": has_more,
    }


def _find_action(request: AuthenticatedRequest, action_id: UUID) -> Any:
    """Raise Http404 if this person may not see the action."""
    action = find.find(find.visible_to(request.user), action_id)
    if action is None:
        raise Http404
    return action


def _find(request: AuthenticatedRequest, action_id: UUID, sha256: str) -> tuple[Any, Attachment]:
    """Raise Http404 if this person may not see the action, or the file is gone."""
    action = _find_action(request, action_id)
    payload = action.current.payload if action.kind in SORTS else None
    if payload:
        give_back_connection()
        person = request.user.pk
        turn = _reading.take(person, seconds=READ_SECONDS)
        with suppress(KeyError), limit_waiting(person), turn:
            source = load.blob_of(action, MailPayload.from_json(payload).source_sha256)
            for file in attachments_in(source):
                if file.sha256 == sha256:
                    return action, file
    raise Http404


def _fetch_received(request: AuthenticatedRequest, action_id: UUID) -> tuple[Any, Attachment]:
    """Raise Http404 if this person may not see the action, or the mailbox has no such file; raise
    Problem if the mailbox does not answer.
    """
    action = _find_action(request, action_id)
    mail, attachment = (request.GET.get(name, "")[:1000] for name in ("mail", "attachment"))
    if not mail or not attachment:
        raise Http404
    caller = caller_of_session(request)
    try:
        mailbox = get_mailbox(caller, str(action.mailbox_id), need=Role.VIEWER)
        with limit_waiting(caller.user.pk, mailbox.pk):
            info, content = reads.fetch_attachment(mailbox, mail, attachment)
    except Problem as problem:
        if problem.code in ("transient", "rate_limited", "auth_error"):
            raise
        raise Http404 from None
    return action, Attachment(name=info.name, type=info.type, content=content)
