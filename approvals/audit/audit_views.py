"""The audit pages: events of the mailboxes that a person manages, their export and verification."""

import csv
import json
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from io import StringIO
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.core.handlers.asgi import ASGIRequest
from django.http import Http404, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_GET

from accounts.access.signed_in import AuthenticatedRequest, signed_in_action, signed_in_page
from accounts.infra.problems import Problem
from accounts.infra.spreadsheets import escape_formula
from accounts.infra.streams import Place, in_thread, take_place
from accounts.models import Mailbox
from approvals.audit import log, proof
from approvals.audit.form import AuditForm
from approvals.audit.words import words_of
from approvals.models import AuditEvent

PAGE = 50
AT_MOST = 20_000  # events that one press of the button verifies
SHOWN = 20  # findings of one chain
COLUMNS = (
    "chain", "mailbox", "sequence", "at", "event", "action_id", "actor", "who", "data", "previous", "hash",
)  # fmt: skip
FORMATS = {"csv": "text/csv; charset=utf-8", "jsonl": "application/jsonl; charset=utf-8"}
WRONG = {
    "altered": _("Event %(n)s was altered"),
    "removed": _("Event %(n)s was removed"),
    "cut": _("Event %(n)s and all later events were cut off"),
    "rewritten": _("Event %(n)s was rewritten"),
    "unapproved": _("Event %(n)s has no approval before it"),
    "unclaimed": _("mailhub did not make this attempt"),
    "unsealed": _("mailhub did not write this decision"),
}


@signed_in_page
def index(request: AuthenticatedRequest) -> HttpResponse:
    """Show the events, newest first. The address holds the filters."""
    chains = log.chains_of(request.user)
    form = AuditForm(request.GET, chains=chains)
    try:
        logged = log.page(form.chains, form.wanted, cursor=request.GET.get("cursor"), limit=PAGE)
    except Problem:  # an address that somebody typed or cut: show the first page
        return redirect(f"{request.path}?{form.query}")
    names = log.names_of(logged.rows)
    rows = [
        log.Row(
            event=event,
            words=words_of(event.event),
            who=names[event.actor],
            mailbox=chains[event.chain_id],
            details=log.details_of(event, names),
        )
        for event in logged.rows
    ]
    context = {
        "form": form,
        "rows": rows,
        "logged": logged,
        "chains": chains,
        "window": log.WINDOW,
        "formats": [("csv", "CSV"), ("jsonl", "JSON Lines")],
    }
    return render(request, "approvals/audit.html", context)


@signed_in_action
def verify(request: AuthenticatedRequest) -> HttpResponse:
    """Verify the chains; of many or long ones only the newest events."""
    chains = log.chains_of(request.user)
    if not chains:
        raise Http404
    found = proof.check_chains(chains.keys(), newest=AT_MOST // len(chains) or 1)
    results = [
        {
            "mailbox": chains[each.chain],
            "checked": each,
            "wrong": [
                (WRONG[one.wrong] % {"n": one.sequence}, one.detail)
                for one in each.findings[:SHOWN]
            ],
            "more": len(each.findings) - SHOWN,
        }
        for each in found
    ]
    results.sort(key=lambda each: (not each["wrong"], str(each["mailbox"] or "")))
    return render(request, "approvals/audit_verified.html", {"results": results})


@signed_in_page
@require_GET
def export(request: AuthenticatedRequest) -> HttpResponseBase:
    """Export all events that match the filters, with the columns needed to verify the chain."""
    chains = log.chains_of(request.user)
    form, kind = AuditForm(request.GET, chains=chains), request.GET.get("format", "csv")
    if not chains or kind not in FORMATS:
        raise Http404
    if not form.is_valid():
        # It shows the errors.
        return redirect(f"{request.path.removesuffix('export/')}?{form.query}")
    # Read here, because the days are in the person's time zone, which is no longer set when the
    # pieces are made.
    batches = log.export_events(request.user, form.chains, form.wanted)
    place = take_place(request.user.pk)
    if place is None:
        messages.error(request, _("Too many downloads are open. Try again in a minute."))
        return redirect("audit")
    pieces = _pieces(place, batches, chains, kind)
    response = StreamingHttpResponse(
        _iterate_async(pieces) if isinstance(request, ASGIRequest) else pieces,
        content_type=FORMATS[kind],
    )
    response["Content-Disposition"] = (
        f'attachment; filename="mailhub-audit-{timezone.localdate()}.{kind}"'
    )
    return response


def _pieces(
    place: Place,
    batches: Iterable[list[AuditEvent]],
    chains: Mapping[UUID, Mailbox | None],
    kind: str,
) -> Iterator[str]:
    """Yield the lines. The place is taken as long as this generator lives."""
    lines = StringIO()
    table = csv.DictWriter(lines, COLUMNS)
    if kind == "csv":
        table.writeheader()
    for batch in batches:
        names = log.names_of(batch)
        for event in batch:
            record = _record(event, chains[event.chain_id], names[event.actor])
            if kind == "csv":
                data = json.dumps(event.data, sort_keys=True, ensure_ascii=False)
                table.writerow(
                    {
                        name: escape_formula(value)
                        for name, value in (record | {"data": data}).items()
                    }
                )
            else:
                lines.write(json.dumps(record, ensure_ascii=False) + "\n")
        yield lines.getvalue()
        lines.seek(0)
        lines.truncate()
    yield lines.getvalue()  # at least the names of the columns


def _record(event: AuditEvent, mailbox: Mailbox | None, who: str) -> dict[str, Any]:
    """Return the exact input of the hash, and readable columns beside it."""
    return {
        "chain": str(event.chain_id),
        "mailbox": mailbox.address if mailbox else "",
        "sequence": event.sequence,
        "at": event.at.isoformat(),
        "event": event.event,
        "action_id": str(event.action_id or ""),
        "actor": event.actor,
        "who": who,
        "data": event.data,
        "previous": event.previous,
        "hash": event.hash,
    }


async def _iterate_async(pieces: Iterator[str]) -> AsyncIterator[str]:
    """Yield the pieces under ASGI, where Django would gather a plain iterator in memory first."""
    while (piece := await in_thread(next, pieces, None)) is not None:
        yield piece
