"""Queries of the audit: the chains that a person may see, pages by keyset, and exports.

The index (chain, at, id) gives the newest events of each chain in order, and these are merged. It
does not serve the kind of event and the actor. These are searched among the next `WINDOW` events,
and the page says where the search stopped.
"""

import json
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, cast
from uuid import UUID

from django.db.models import Q, QuerySet
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from accounts.access.roles import held_mailboxes
from accounts.infra.first_rows import first_rows
from accounts.infra.foreign_text import parse_number, parse_uuid
from accounts.models import ApiToken, Mailbox, Role, User
from approvals.core.cursors import read_cursor, write_cursor
from approvals.models import AuditChain, AuditEvent
from approvals.models.audit import NO_MAILBOX

WINDOW = 2000
BATCH = 1000
SHORT = 10  # characters of a hash that a row shows
CONCERNED = ("member", "deputy", "deputy_of")  # members of the data that are people
LONG = 200  # characters of any other value
# Members of the data that say how mailhub counts and compares, and nothing to a person.
INTERNAL = ("fence", "evidence", "said", "generation")
NAMES = {
    "member": gettext_lazy("member"),
    "role": gettext_lazy("role"),
    "before": gettext_lazy("before"),
    "since": gettext_lazy("since"),
    "until": gettext_lazy("until"),
    "reason": gettext_lazy("reason"),
    "revision": gettext_lazy("revision"),
    "provider": gettext_lazy("provider"),
    "proof": gettext_lazy("proven by"),
    "method": gettext_lazy("method"),
    "invitation": gettext_lazy("invitation"),
    "digest": gettext_lazy("digest"),
    "kind": gettext_lazy("kind"),
    "code": gettext_lazy("code"),
    "token": gettext_lazy("token"),
    "name": gettext_lazy("name"),
    "scopes": gettext_lazy("scopes"),
    "tool": gettext_lazy("tool"),
    "given": gettext_lazy("approvals given"),
    "needed": gettext_lazy("approvals needed"),
    "seen": gettext_lazy("was shown"),
    "changed": gettext_lazy("changed"),
}

EXPORT_SECONDS = 900

Kind = Literal["user", "token", "worker", "command"]


class ExportEnded(Exception):
    """The end of an export before its last event: the download fails, so nobody takes it for whole."""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """The filters of a page or an export; an event must match all of them.

    `until` itself is excluded.
    """

    event: str = ""
    action: UUID | None = None
    kind: Kind | None = None
    who: str = ""
    since: datetime | None = None
    until: datetime | None = None
    also: Q = field(default_factory=Q)  # searched among the events, like kind and who

    @property
    def by_index(self) -> Q:
        found = Q()
        if self.action is not None:
            found &= Q(action_id=self.action)
        if self.since is not None:
            found &= Q(at__gte=self.since)
        if self.until is not None:
            found &= Q(at__lt=self.until)
        return found

    @property
    def by_looking(self) -> Q:
        found = self.also & Q(event=self.event) if self.event else self.also
        if self.kind is not None:
            exact = self.kind in ("worker", "command")
            by = Q(actor=self.kind) if exact else Q(actor__startswith=f"{self.kind}:")
            found &= by | Q(actor__startswith="chat:") if self.kind == "token" else by
        if self.who:
            found &= Q(actor__in=_find_actors(self.who))
        return found


@dataclass(frozen=True, kw_only=True)
class Logged:
    """One page of events; `next_cursor` leads to the next.

    `stopped_early` is True if a search reached the end of its window before the page was full.
    """

    rows: list[AuditEvent]
    next_cursor: str | None
    stopped_early: bool = False


@dataclass(frozen=True, kw_only=True)
class Row:
    """One event in words. `about` is the person whom it concerns, `network` where they were."""

    event: AuditEvent
    words: str
    who: str
    mailbox: Mailbox | None = None
    about: str = ""
    method: str = ""
    network: str = ""
    details: list[tuple[str, str]]


def chains_of(person: User) -> dict[UUID, Mailbox | None]:
    """Return the chains that this person may see.

    They are those of the mailboxes they manage, connected or not. Staff also see the chain without
    a mailbox.
    """
    managed = held_mailboxes(person, need=Role.MANAGER).only("id", "address")
    found: dict[UUID, Mailbox | None] = {
        mailbox.pk: mailbox for mailbox in managed.order_by("address")
    }
    return found | ({NO_MAILBOX: None} if person.is_staff else {})


def page(chains: Collection[UUID], what: Wanted, *, cursor: str | None, limit: int) -> Logged:
    """Return one page, newest first. Raises `invalid_input` for a cursor that no page has given."""
    take = WINDOW if what.by_looking else limit + 1
    keys = _newest(chains, what.by_index & _after_cursor(cursor), take)
    found = AuditEvent.objects.filter(what.by_looking, pk__in=[key for _, key in keys]).order_by(
        "-at", "-id"
    )
    rows = list(found[: limit + 1])
    if len(rows) > limit:
        return Logged(
            rows=rows[:limit], next_cursor=_cursor(rows[limit - 1].at, rows[limit - 1].pk)
        )
    stopped = take == WINDOW and len(keys) == take
    return Logged(
        rows=rows, next_cursor=_cursor(*keys[-1]) if stopped else None, stopped_early=stopped
    )


def export_events(
    person: User, chains: Collection[UUID], what: Wanted
) -> Iterator[list[AuditEvent]]:
    """Yield all events of now, chain by chain and oldest first, as a verifier reads them.

    Each batch is its own statement, so no query stays open while somebody downloads slowly. Raises
    ExportEnded if the person may no longer see the chain, or after `EXPORT_SECONDS`.
    """
    ends = time.monotonic() + EXPORT_SECONDS
    lengths = dict(AuditChain.objects.filter(pk__in=chains).values_list("pk", "length"))
    for chain in chains:
        after, full = 0, True
        while full:
            now = User.objects.filter(pk=person.pk, is_active=True).first()
            if now is None or chain not in chains_of(now) or time.monotonic() > ends:
                raise ExportEnded
            events = AuditEvent.objects.filter(
                what.by_index,
                what.by_looking,
                chain=chain,
                sequence__gt=after,
                sequence__lte=lengths.get(chain, 0),
            )
            batch = list(events.order_by("sequence")[:BATCH])
            if batch:
                after = batch[-1].sequence
                yield batch
            full = len(batch) == BATCH


def names_of(events: Iterable[AuditEvent]) -> dict[str, str]:
    """Return the names of the actors and members in these events, looked up once for all."""
    actors = {event.actor for event in events}
    actors |= {f"user:{key}" for event in events for key in _concerned_people(event)}
    people = User.objects.in_bulk([key for actor in actors if (key := owner_id(actor))])
    tokens = {
        f"token:{token.pk}": _("%(name)s, a token of %(owner)s")
        % {"name": token.name, "owner": token.user.email}
        for token in ApiToken.objects.select_related("user").filter(
            pk__in=filter(None, (parse_uuid(each.removeprefix("token:")) for each in actors))
        )
    }
    fixed = {
        "worker": _("a worker"),
        "command": _("a command on the server"),
        "stranger": _("a person who is not signed in"),
    }
    return {
        actor: name_of(actor, people[key].email)
        if (key := owner_id(actor)) in people
        else {**tokens, **fixed}.get(actor, actor)
        for actor in actors
    }


def details_of(
    event: AuditEvent, names: Mapping[str, str], *, but: Collection[str] = ()
) -> list[tuple[str, str]]:
    """Return the data of an event for people, one short value for each name that is not in `but`.

    What only a verifier needs is in the export.
    """
    # Somebody with access to the database can have written anything into it. The page must still
    # work.
    data: dict[str, Any] = event.data if isinstance(event.data, dict) else {"data": event.data}
    found = [
        (name, _short(value))
        for name, value in sorted(data.items())
        if value not in ("", None, {}, []) and name not in (*INTERNAL, *but)
    ]
    return [
        (
            str(NAMES.get(name, name.replace("_", " "))),
            names.get(f"user:{data[name]}", value) if name in CONCERNED else value,
        )
        for name, value in found
    ]


def _short(value: Any) -> str:
    if isinstance(value, str):
        return f"{value[:SHORT]}…" if len(value) == 64 else value[:LONG]
    text = json.dumps(value, sort_keys=True, ensure_ascii=False)
    return f"{text[:LONG]}…" if len(text) > LONG else text


def _newest(chains: Collection[UUID], conditions: Q, take: int) -> list[tuple[datetime, int]]:
    """Return the keys of the first `take` events of these chains together."""
    events = AuditEvent.objects.filter(conditions)
    found = first_rows(events, keys={"chain": chains}, order=("-at", "-id"), take=take)
    return cast("list[tuple[datetime, int]]", found)


def _cursor(at: datetime, key: int) -> str:
    return write_cursor(at, str(key))


def _after_cursor(cursor: str | None) -> Q:
    if not cursor:
        return Q()
    at, number = read_cursor(cursor, parse_number)
    # Both conditions, because the index serves only the first.
    return Q(at__lte=at) & (Q(at__lt=at) | Q(id__lt=number))


def _find_actors(name: str) -> list[str]:
    """Return a person with this address and their tokens, or the tokens with this name."""
    people = people_of(name)
    return actors_with_tokens(people, Q(user__in=people) | Q(name=name.strip()))


def people_of(email: str) -> QuerySet[User, int]:
    return User.objects.filter(email=email.strip().lower()).values_list("pk", flat=True)


def actors_with_tokens(people: QuerySet[User, int], tokens: Q) -> list[str]:
    keys = ApiToken.objects.filter(tokens).values_list("pk", flat=True)
    return [*actors_of(people), *(f"token:{key}" for key in keys)]


def actors_of(people: Iterable[int]) -> list[str]:
    """Return the words for these people and their chats."""
    return [f"{kind}:{key}" for key in people for kind in ("user", "chat")]


def _concerned_people(event: AuditEvent) -> list[str]:
    data = event.data if isinstance(event.data, dict) else {}
    return [str(key) for name in (*CONCERNED, "subject") if (key := data.get(name))]


def owner_id(actor: str) -> int | None:
    """Return the id of a person who acts, or whose chat acts."""
    kind, _, key = actor.partition(":")
    return parse_number(key) if kind in ("user", "chat") else None


def name_of(actor: str, person: str) -> str:
    """Return how a person who acts is called, or the chat of that person."""
    return person if actor.startswith("user:") else _("the chat of %(owner)s") % {"owner": person}
