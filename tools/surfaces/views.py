"""Pages about mail: compose, drafts, and the conversation beside a review. They call the same tools
as programs.
"""

import base64
import re
from typing import Any
from uuid import UUID, uuid4

from django.contrib.auth.decorators import login_required
from django.core.files.uploadedfile import UploadedFile
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from accounts.access.auth import caller_of_session
from accounts.access.roles import mailboxes
from accounts.infra.problems import Problem
from accounts.infra.time_zones import zone_named
from accounts.models import Role
from approvals.lifecycle import queries
from approvals.pages import listing
from tools.catalog.calls import call_tool
from tools.surfaces.forms import ComposeForm

CONVERSATION_CHARACTERS = 12_000
QUOTED = re.compile(r"^\[(\d+) quoted lines?\]$", re.MULTILINE)


@login_required
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def compose(request: HttpRequest) -> HttpResponse:
    """Propose a new mail, which then waits for approval, or save it as a draft."""
    caller = caller_of_session(request)
    senders = list(mailboxes(caller, need=Role.PROPOSER))
    form = ComposeForm(request.POST or None, senders=senders)
    problem = None
    if request.method == "POST" and form.is_valid():
        try:
            fields = {
                **form.arguments(),
                "attachments": [_attachment(file) for file in request.FILES.getlist("files")],
            }
            if request.POST.get("as") == "draft":
                call_tool(caller, "create_draft", fields)
                return redirect(f"{reverse('drafts')}?mailbox={fields['mailbox']}")
            if (later := form.cleaned_data["send_at"]) is not None:
                fields["send_at"] = later.isoformat()
            answer = call_tool(
                caller, "send_email", {**fields, "confirm": True}, form.cleaned_data["key"] or None
            )
            return redirect("review", answer.result["action"]["id"])
        except Problem as refused:
            problem = refused
            for error in refused.errors:
                form.blame(error.field, error.message)
    context = {
        "form": form,
        "problem": problem,
        "senders": senders,
        "key": request.POST.get("key") or uuid4().hex,
        "zone": zone_named(request.POST.get("zone", timezone.get_current_timezone_name())),
        "waiting": _waiting(request),
    }
    return render(
        request,
        "tools/compose.html",
        context,
        status=problem.status if problem else 422 if form.errors else 200,
    )


@login_required
@never_cache
@require_safe
def drafts(request: HttpRequest) -> HttpResponse:
    """Show the drafts of one mailbox, as its provider has them now."""
    caller = caller_of_session(request)
    mine = list(mailboxes(caller))
    chosen = next(
        (mailbox for mailbox in mine if str(mailbox.pk) == request.GET.get("mailbox")),
        mine[0] if mine else None,
    )
    found: dict[str, Any] = {}
    problem = None
    if chosen is not None:
        asked = {"mailbox": str(chosen.pk), "max_results": 25}
        if token := request.GET.get("page", ""):
            asked["page_token"] = token[:200]
        try:
            found = call_tool(caller, "list_drafts", asked).result
        except Problem as refused:
            problem = refused
    context = {
        "mailboxes": mine,
        "chosen": chosen,
        "drafts": found.get("drafts", []),
        "next": found.get("next_page_token"),
        "problem": problem,
        "waiting": _waiting(request),
    }
    return render(request, "tools/drafts.html", context)


@login_required
@require_POST
def send_draft(request: HttpRequest) -> HttpResponse:
    """Propose a draft as it is now; it leaves only after an approval, and not if it changes
    before.
    """
    fields = {
        "mailbox": request.POST.get("mailbox"),
        "draft_id": request.POST.get("draft", ""),
        "confirm": True,
    }
    try:
        answer = call_tool(caller_of_session(request), "send_draft", fields)
    except Problem as problem:
        return render(request, "tools/refused.html", {"problem": problem}, status=problem.status)
    return redirect("review", answer.result["action"]["id"])


@login_required
@require_POST
def delete_draft(request: HttpRequest) -> HttpResponse:
    fields = {"mailbox": request.POST.get("mailbox"), "draft_id": request.POST.get("draft", "")}
    try:
        call_tool(caller_of_session(request), "delete_draft", fields)
    except Problem as problem:
        return render(request, "tools/refused.html", {"problem": problem}, status=problem.status)
    return redirect(f"{reverse('drafts')}?mailbox={fields['mailbox']}")


@login_required
@never_cache
@require_safe
def conversation(request: HttpRequest, action_id: UUID) -> HttpResponse:
    """Show the conversation of an action, read from the provider now.

    It is a separate page, so that a slow provider delays no other page; `?part=1` is for the page
    beside.
    """
    caller = caller_of_session(request)
    action = queries.find(queries.of_caller(caller), action_id)
    original = action.current.payload.get("original") if action else None
    if action is None or not original:
        raise Http404
    asked = {
        "mailbox": str(action.mailbox_id),
        "message_id": original,
        "max_chars": CONVERSATION_CHARACTERS,
    }
    context: dict[str, Any] = {"action": action, "own": action.mailbox.address}
    try:
        found = call_tool(caller, "read_thread", asked).result
    except Problem as problem:
        context["problem"] = problem
    else:
        context["messages_read"] = [_said(message) for message in found["messages"]]
        context["truncated"] = "truncated" in found
        context["newer"] = any(
            said["at"] is not None
            and said["at"] > action.created_at
            and said["from"] != action.mailbox.address
            for said in context["messages_read"]
        )
    part = request.GET.get("part") == "1"
    return render(
        request, "tools/conversation_part.html" if part else "tools/conversation.html", context
    )


def _said(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message with its quotes folded: passages of text, and numbers of quoted lines
    between them.
    """
    stretches: list[dict[str, Any]] = []
    for place, stretch in enumerate(QUOTED.split(message["body"])):
        if place % 2:
            stretches.append({"folded": int(stretch)})
        elif stretch.strip():
            stretches.append({"text": stretch.strip("\n")})
    return {
        "from": message["from"],
        "at": parse_datetime(message["date"] or ""),
        "stretches": stretches,
    }


def _attachment(file: "UploadedFile[Any]") -> dict[str, Any]:
    return {
        "name": file.name,
        "type": file.content_type or "application/octet-stream",
        "content_base64": base64.b64encode(file.read()).decode(),
    }


def _waiting(request: HttpRequest) -> int:
    return listing.waiting_for(caller_of_session(request).user)
