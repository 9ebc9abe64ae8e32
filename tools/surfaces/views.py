"""Pages about mail: compose, drafts, and the conversation beside a review. They call the same tools
as programs.
"""

import base64
import json
import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any
from uuid import UUID, uuid4

from django.core.files.uploadedfile import UploadedFile
from django.core.paginator import Paginator
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from accounts.access.auth import caller_of_session
from accounts.access.roles import get_mailbox, mailboxes
from accounts.access.signed_in import (
    AuthenticatedRequest,
    signed_in_action,
    signed_in_form,
    signed_in_page,
)
from accounts.infra.problems import Problem
from accounts.infra.time_zones import get_zone
from accounts.models import Mailbox, Role
from approvals.gate import find
from approvals.pages.track_record import find_others_to
from tools.catalog.calls import call_tool
from tools.mail.message.authentication import spell_verdicts
from tools.reading.correspondents import look_up
from tools.sending import command_runs as runs
from tools.sending.payload import SORTS, MailPayload
from tools.surfaces.forms import ComposeForm

CONVERSATION_CHARACTERS = 12_000
COMMANDS = 50
RECIPIENTS = 3  # who are looked up
QUOTED = re.compile(r"^\[(\d{1,9}) quoted lines?\]$", re.MULTILINE)


@signed_in_form
def compose(request: AuthenticatedRequest) -> HttpResponse:
    """Propose a new mail, which then waits for approval, or save it as a draft."""
    caller = caller_of_session(request)
    senders = list(mailboxes(caller, need=Role.PROPOSER))
    form = ComposeForm(request.POST or None, senders=senders)
    if request.method != "POST" or not form.is_valid():
        return _render_compose(request, form, senders)
    fields = form.arguments()
    fields["attachments"] = [_attachment(file) for file in request.FILES.getlist("files")]
    try:
        if request.POST.get("as") == "draft":
            call_tool(caller, "create_draft", fields)
            return redirect(f"{reverse('drafts')}?mailbox={fields['mailbox']}")
        fields["confirm"] = True
        if (later := form.cleaned_data["send_at"]) is not None:
            fields["send_at"] = later.isoformat()
        answer = call_tool(caller, "send_email", fields, _key_of(form, fields))
    except Problem as problem:
        for error in problem.errors:
            form.blame(error.field, error.message)
        return _render_compose(request, form, senders, problem=problem)
    return redirect("review", answer.result["action"]["id"])


def _key_of(form: ComposeForm, fields: Mapping[str, Any]) -> str | None:
    """Return the key of this content of the form: after Back in the browser it may be another one."""
    key: str = form.cleaned_data["key"]
    return key + sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest() if key else None


def _render_compose(
    request: AuthenticatedRequest,
    form: ComposeForm,
    senders: list[Mailbox],
    *,
    problem: Problem | None = None,
) -> HttpResponse:
    context = {
        "form": form,
        "problem": problem,
        "senders": senders,
        "key": request.POST.get("key") or uuid4().hex,
        "zone": get_zone(request.POST.get("zone", timezone.get_current_timezone_name())),
    }
    status = problem.status if problem else 422 if form.errors else 200
    return render(request, "tools/compose.html", context, status=status)


@signed_in_page
def drafts(request: AuthenticatedRequest) -> HttpResponse:
    """Show the drafts of one mailbox, as its provider has them now."""
    caller = caller_of_session(request)
    mine = list(mailboxes(caller))
    chosen = next(
        (mailbox for mailbox in mine if str(mailbox.pk) == request.GET.get("mailbox")),
        mine[0] if mine else None,
    )
    found: Mapping[str, Any] = {}
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
    }
    return render(request, "tools/drafts.html", context)


@signed_in_action
def send_draft(request: AuthenticatedRequest) -> HttpResponse:
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


@signed_in_action
def delete_draft(request: AuthenticatedRequest) -> HttpResponse:
    fields = {"mailbox": request.POST.get("mailbox"), "draft_id": request.POST.get("draft", "")}
    try:
        call_tool(caller_of_session(request), "delete_draft", fields)
    except Problem as problem:
        return render(request, "tools/refused.html", {"problem": problem}, status=problem.status)
    return redirect(f"{reverse('drafts')}?mailbox={fields['mailbox']}")


@signed_in_page
def commands(request: AuthenticatedRequest) -> HttpResponse:
    """List the commands in other systems that this person may see, as they ran."""
    person = request.user
    page = Paginator(runs.visible_to(person), COMMANDS).get_page(request.GET.get("page"))
    context = {
        "page": page,
        "everybody": person.is_staff,
    }
    return render(request, "tools/commands.html", context)


@signed_in_page
def conversation(request: AuthenticatedRequest, action_id: UUID) -> HttpResponse:
    """Show the conversation of an action, read from the provider now.

    It is a separate page, so that a slow provider delays no other page; `?part=1` is for the page
    beside, and `?quoted=1` shows what is folded too.
    """
    caller = caller_of_session(request)
    action = find.find(find.of_caller(caller), action_id)
    payload = action.current.payload if action and action.kind in SORTS else None
    if action is None or not payload:
        raise Http404
    context: dict[str, Any] = {"action": action, "own": action.mailbox.address}
    try:
        original = MailPayload.from_json(payload).original
        if not original:
            raise Http404
        asked = {
            "mailbox": str(action.mailbox_id),
            "message_id": original,
            "max_chars": CONVERSATION_CHARACTERS,
            "quoted": request.GET.get("quoted") == "1",
        }
        found = call_tool(caller, "read_thread", asked).result
    except Problem as problem:
        context["problem"] = problem
    else:
        read = [_fold_quotes(message) for message in reversed(found["messages"])]
        ids = [said["id"] for said in read]
        # Without the answered mail, which may be deleted or too old, nothing is marked.
        place = ids.index(original) if original in ids else len(ids)
        context |= {
            "count": len(read),
            "answered": read[place] if place < len(read) else None,
            "is_forward": action.kind == "mail.forward",
            "later": read[:place],
            "earlier": read[place + 1 :],
            "truncated": "truncated" in found,
            "newer": any(
                said["at"] is not None
                and said["at"] > action.created_at
                # An ended mail may be among the mailbox's own ones.
                and (said["from"] != action.mailbox.address or not action.is_final)
                for said in read
            ),
        }
    part = request.GET.get("part") == "1"
    return render(
        request, "tools/conversation_part.html" if part else "tools/conversation.html", context
    )


@signed_in_page
def recipients(request: AuthenticatedRequest, action_id: UUID) -> HttpResponse:
    """Say who the first recipients are: the mail with them, read from the provider now, and what
    else the same agent has proposed to them today.
    """
    caller = caller_of_session(request)
    action = find.find(find.of_caller(caller), action_id)
    if action is None or action.kind not in SORTS:
        raise Http404
    targets = (action.current.preview or {}).get("targets", ())[:RECIPIENTS]
    today = timezone.localtime().replace(hour=0, minute=0, second=0, microsecond=0)
    people: list[dict[str, Any]] = []
    problem = None
    for target in targets:
        address = target["address"]
        others = find_others_to(action, address, since=today) if action.proposer_name else ()
        person: dict[str, Any] = {"address": address, "others": others}
        if problem is None:  # a provider that does not answer is asked once
            try:
                mailbox = get_mailbox(caller, str(action.mailbox_id), need=Role.VIEWER)
                person["known"] = look_up(caller, mailbox, address)
            except Problem as refused:
                problem = refused
        people.append(person)
    context = {"action": action, "people": people, "problem": problem}
    return render(request, "tools/recipients.html", context)


def _fold_quotes(message: dict[str, Any]) -> dict[str, Any]:
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
        "id": message["id"],
        "from": message["from"],
        "name": message.get("name", ""),
        "at": parse_datetime(message["date"] or ""),
        "stretches": stretches,
        "files": message.get("attachments", ()),
        "folded": sum(message.get("folded", {}).values()),
        "checks": spell_verdicts(message.get("authentication", {})),
    }


def _attachment(file: "UploadedFile[Any]") -> dict[str, Any]:
    return {
        "name": file.name,
        "type": file.content_type or "application/octet-stream",
        "content_base64": base64.b64encode(file.read()).decode(),
    }
