"""Queries for actions: in the contract's shape for programs, as rows for pages."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, cast
from uuid import UUID

import structlog
from django.conf import settings
from django.db.models import OuterRef, Q, QuerySet, Subquery
from django.urls import reverse

from accounts.access import roles
from accounts.access.caller import Caller
from accounts.infra.credentials import CannotDecrypt
from accounts.infra.foreign_text import parse_uuid
from accounts.infra.texts import without_sources
from accounts.models import Mailbox, User
from approvals.core.answers import (
    Action,
    ActionError,
    CommandOutput,
    Review,
    Verdict,
    Warned,
    Watched,
)
from approvals.core.at_rest import open_part
from approvals.core.cursors import after_cursor, write_cursor
from approvals.core.states import FINAL, Status
from approvals.core.types import get_kind
from approvals.gate import notes, reconcile, watches
from approvals.gate.rules import sentences
from approvals.models import AuditEvent, Decision, PendingAction, Revision

log = structlog.get_logger(__name__)

RULE_CHANGES = 20


def has_decided(person: User) -> bool:
    return Decision.objects.filter(person=person).exists()


def has_proposed(person: User, *, by: str) -> bool:
    """Return True if a program of this person with that name has proposed something."""
    return PendingAction.objects.filter(proposer=person, proposer_name=by).exists()


def visible_to(person: User) -> QuerySet[PendingAction]:
    """Return the actions of mailboxes that this person sees."""
    return PendingAction.objects.filter(mailbox__in=roles.held_ids(person))


def of_caller(caller: Caller) -> QuerySet[PendingAction]:
    """Return the actions that the caller may see.

    A program sees the actions proposed under its own name in its mailboxes. A person sees all
    actions of their mailboxes.
    """
    if caller.is_person:
        return visible_to(caller.user)
    return PendingAction.objects.filter(
        proposer=caller.user,
        proposer_name=caller.name,
        mailbox__in=roles.mailboxes(caller),
    )


def find(actions: QuerySet[PendingAction], action_id: str | UUID) -> PendingAction | None:
    """Return the action with this id among these; None for an unknown or malformed id."""
    wanted = parse_uuid(str(action_id))
    if wanted is None:
        return None
    return actions.select_related("mailbox", "proposer", "watch").filter(pk=wanted).first()


def with_preview(actions: QuerySet[PendingAction]) -> QuerySet[PendingAction]:
    """Add `shown`, the readable part of the current preview, without reading its payload.

    It takes no second query. `open_shown` adds the encrypted part.
    """
    current = Revision.objects.filter(action=OuterRef("pk"), number=OuterRef("revision"))
    return actions.annotate(
        shown=Subquery(current.values("preview")[:1]),
        sealed_shown=Subquery(current.values("sealed_preview")[:1]),
    )


def open_shown(actions: Iterable[PendingAction]) -> list[PendingAction]:
    """Decrypt the rest of `shown` in these rows; a part that no key opens is left out."""
    found = list(actions)
    for action in found:
        action.shown = open_preview(action.shown, action.sealed_shown, action.pk, action.revision)  # type: ignore[attr-defined]
    return found


def open_preview(preview: Any, sealed: Any, action_id: UUID, revision: int) -> dict[str, Any]:
    """Return the whole preview from its readable and its encrypted part."""
    readable: dict[str, Any] = preview or {}
    if sealed is None:
        return readable
    try:
        return open_part("preview", readable, sealed, action_id, revision)
    except CannotDecrypt:
        log.warning("content_not_decrypted", action=str(action_id), kind="preview")
        return readable


def review_url(action: PendingAction) -> str:
    return f"{settings.MAILHUB_PUBLIC_URL}{reverse('review', args=[action.pk])}"


def describe_action(action: PendingAction, *, reads: bool) -> Action:
    """Return the contract's `action` object; empty optional members are left out, and so is text of
    the mail unless the caller `reads` mail.
    """
    members: Action = {
        "id": str(action.pk),
        "state": Status(action.status),
        "tool": action.tool,
        "mailbox": action.mailbox.address,
        "review_url": review_url(action),
        "created_at": rfc3339(action.created_at),
        "expires_at": rfc3339(action.expires_at),
    }
    if action.send_at:
        members["send_at"] = rfc3339(action.send_at)
    shown = getattr(action, "shown", None) or action.current.preview
    members |= cast(Action, (shown.get("parts") or {}).get("request", {}))
    if pairs := notes.metadata_of(action):
        members["metadata"] = pairs
    if action.receipt:
        members["receipt"] = action.receipt
        if result := get_kind(action.kind).result(action.pk):
            members["result"] = cast(CommandOutput, result)
    if action.differs_in_sent:
        members["differs_in_sent"] = action.differs_in_sent
    if action.unsettled_at:
        members["unsettled_at"] = rfc3339(action.unsettled_at)
    if action.error:
        error = {"code": "", "detail": ""} | without_sources(action.error)
        members["error"] = cast(ActionError, error)
    members |= cast(Action, describe_watch(action, reads=reads))
    if review := review_of(action, reads=reads):
        members["review"] = review
    if at := reconcile.may_have_left(action):
        members["may_have_been_sent_at"] = rfc3339(at)
    if at := reconcile.find_unshown_send(action):
        members["also_sent_at"] = rfc3339(at)
    if action.status == Status.SUPERSEDED and (
        successor := PendingAction.objects.filter(replaces=action).first()
    ):
        members["superseded_by"] = str(successor.pk)
    return members


def describe_watch(action: PendingAction, *, reads: bool, own: bool = True) -> Watched:
    """Return the members about answers to the action and reports, with the times as texts."""
    came = watches.describe(watches.watch_of(action), reads=reads, own=own)
    return cast(
        Watched,
        {
            name: rfc3339(value) if isinstance(value, datetime) else value
            for name, value in came.items()
        },
    )


def with_answer(actions: QuerySet[PendingAction], answered: bool) -> QuerySet[PendingAction]:
    """Return the sent actions to which somebody has answered, or those to which nobody has."""
    return actions.filter(
        status=Status.SUCCEEDED, watch__isnull=False, watch__answered_at__isnull=not answered
    )


def rfc3339(at: datetime) -> str:
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


def review_of(action: PendingAction, *, reads: bool) -> Review | None:
    """Return the last decision or edit by a person, in the contract's words, or None.

    `changed` names the fields that a reviewer changed. The mail goes on with these changes, so it
    need not be proposed again.
    """
    if action.first_event is not None:
        return None
    counts = ~Q(verdict=Decision.Verdict.APPROVED) | Q(
        approval_round=action.approval_round, revision=action.revision
    )
    said = action.decisions.filter(counts).select_related("person").last()
    edit = _last_edit(action) if action.revision > 1 else None
    if edit is not None and (said is None or said.created_at < edit.created_at):
        review: Review = {"by": str(edit.author), "verdict": "edited"}
    elif said is not None:
        review = {"by": str(said.person), "verdict": cast(Verdict, said.verdict)}
        review |= cast(Review, note_of(said, reads=reads))
    else:
        return None
    if edit is not None and edit.changed:
        review["changed"] = edit.changed
    return review


def note_of(decision: Decision, *, reads: bool) -> dict[str, str]:
    """Return the words of the decision. The passage is text of the mail, also of its quoted original."""
    said = {"note": decision.note, "passage": decision.passage if reads else ""}
    return {name: text for name, text in said.items() if text}


def _last_edit(action: PendingAction) -> Revision | None:
    """Return the newest revision with other content than the one before; others add findings."""
    revisions = list(
        action.revisions.select_related("author").defer(
            "payload", "preview", "sealed_payload", "sealed_preview"
        )
    )
    return next(
        (
            after
            for before, after in reversed(list(pairwise(revisions)))
            if after.digest != before.digest
        ),
        None,
    )


def warnings_of(action: PendingAction, *, titles_only: bool = False) -> list[Warned]:
    """Return the contract's warnings of the current revision; empty after a purge."""
    return describe_warnings(action.current.preview.get("warnings", []), titles_only=titles_only)


def describe_warnings(warnings: Iterable[Mapping[str, Any]], *, titles_only: bool) -> list[Warned]:
    """Return warnings in the contract's form. Their texts quote the mail, but their titles do not."""
    return [
        {
            "code": each["code"],
            "text": f"{each.get('title', '')} {'' if titles_only else each['text']}".strip(),
        }
        for each in map(without_sources, warnings)
    ]


def page(
    actions: QuerySet[PendingAction], *, cursor: str | None, limit: int, newest_first: bool
) -> tuple[list[PendingAction], str | None]:
    """Return one keyset page by (created_at, id), and the cursor of the next.

    Raises `invalid_input` for a foreign cursor.
    """
    order = ("-created_at", "-id") if newest_first else ("created_at", "id")
    actions = actions.filter(after_cursor(cursor, newest_first=newest_first))
    found = actions.select_related("mailbox", "proposer", "watch").prefetch_related("metadata")
    rows = list(found.order_by(*order)[: limit + 1])
    if len(rows) <= limit:
        return rows, None
    last = rows[limit - 1]
    return rows[:limit], write_cursor(last.created_at, last.pk.hex)


@dataclass(frozen=True, kw_only=True)
class RuleChange:
    """A change of a mailbox's rules: the time, the person, and the rules since then."""

    at: datetime
    by: str
    said: list[str]


def rule_changes(
    mailbox: Mailbox, *, since: datetime | None = None, until: datetime | None = None
) -> list[RuleChange]:
    """Return the changes of a mailbox's rules, the newest first.

    For one action these are the changes between its proposal and its end.
    """
    events = AuditEvent.objects.filter(chain=mailbox.pk, event="policy_changed").order_by(
        "-sequence"
    )
    if since is not None:
        events = events.filter(at__gte=since)
    if until is not None:
        events = events.filter(at__lte=until)
    found = list(events[:RULE_CHANGES])
    people = {
        f"user:{person.pk}": str(person) for person in User.objects.filter(pk__in=_people_of(found))
    }
    return [
        RuleChange(
            at=event.at,
            by=people.get(event.actor, event.actor),
            said=sentences.changes(event.data["changed"]),
        )
        for event in found
    ]


def rule_changes_of(action: PendingAction) -> list[RuleChange]:
    """Return the changes of the rules during the life of this action, for its history."""
    return rule_changes(action.mailbox, since=action.created_at, until=action.finished_at)


def _people_of(events: list[AuditEvent]) -> set[int]:
    return {
        int(event.actor.removeprefix("user:"))
        for event in events
        if event.actor.startswith("user:")
    }


def count_unfinished(mailbox: Mailbox) -> dict[str, int]:
    """Return how many actions of a mailbox are pending, about to leave, or unknown."""
    of = PendingAction.objects.filter(mailbox=mailbox)
    return {
        "waiting": of.filter(status=Status.PENDING).count(),
        "leaving": of.filter(status__in=(Status.APPROVED, Status.EXECUTING)).count(),
        "unknown": of.filter(status=Status.UNKNOWN).count(),
    }


def values_in_open_actions(*members: str) -> set[str]:
    """Return the values of these members in payloads of open or not yet settled actions."""
    open_ = Revision.objects.filter(
        ~Q(action__status__in=FINAL) | Q(action__settle_at__isnull=False)
    )
    payloads = open_.defer("preview", "sealed_preview").iterator(chunk_size=100)
    return {
        str(value)
        for revision in payloads
        for member in members
        if (value := _member(revision.payload, member))
    }


def _member(payload: Any, path: str) -> Any:
    """Return the value at a path of names joined by `__`; None if it is missing."""
    for name in path.split("__"):
        payload = payload.get(name) if isinstance(payload, dict) else None
    return payload
