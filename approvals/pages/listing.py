"""Pages of actions for people: by keyset, filtered, and bounded however many there are.

One index (mailbox, status, created_at, id) serves all lists: for each mailbox and state it gives
the next few in order, and these are merged. A search covers the next `WINDOW` of them and says
where it stopped. A list never reads a payload.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from uuid import UUID

from django.db.models import CharField, Exists, F, OuterRef, Q, QuerySet, Subquery, Value
from django.db.models.functions import Coalesce, Greatest, NullIf

from accounts.infra.first_rows import Rows, count_first, first_rows
from accounts.models import Mailbox, Membership, User
from approvals.core.cursors import foreign_cursor
from approvals.core.states import Status
from approvals.gate.find import open_preview, open_shown, with_preview
from approvals.gate.reconcile import find_gone, is_unproven
from approvals.gate.rules.conditions import number_that_counts, waits_for_others
from approvals.models import (
    ApprovalPolicy,
    Attempt,
    AuditEvent,
    Comment,
    PendingAction,
    ProposerNote,
)
from approvals.pages.discussion import current_assignments
from approvals.pages.orders import BY_MAILBOX, OLDEST, Order, value_of

WINDOW = 2000
COUNTED = 100  # of each mailbox and state
PLACES = 99  # that are counted
TERM = re.compile(r'(?:(from|to|warning|for):)?(?:"([^"]*)"|(\S+))')


def _build_all(person: Any) -> QuerySet[PendingAction]:
    return PendingAction.objects.all()


def _build_mine(person: Any) -> QuerySet[PendingAction]:
    return PendingAction.objects.filter(~Q(status=Status.PENDING) | ~waits_for_others(person))


def _build_others(person: Any) -> QuerySet[PendingAction]:
    return PendingAction.objects.filter(waits_for_others(person))


ALL = Rows(build=_build_all)


def mine(person: User) -> Rows:
    """Return all actions but those that wait for others only, which have their own list."""
    return Rows(build=_build_mine, value=person.pk)


def others(person: User) -> Rows:
    """Return the pending actions that wait for others than this person."""
    return Rows(build=_build_others, value=person.pk)


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """The filters of a list beside its states; an action must match all of them."""

    words: tuple[str, ...] = ()
    asked_by: tuple[str, ...] = ()
    to: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    assigned_to: tuple[str, ...] = ()
    warned: bool = False

    @property
    def anything(self) -> bool:
        given = (self.words, self.asked_by, self.to, self.warnings, self.assigned_to, self.warned)
        return any(given)


@dataclass(frozen=True, kw_only=True)
class Listed:
    """One page of actions; `next_cursor` leads to the next.

    `stopped_early` is True if a search reached the end of its window before the page was full.
    """

    rows: list[PendingAction]
    next_cursor: str | None
    stopped_early: bool = False


def parse_search(text: str, *, warned: bool = False) -> Wanted:
    """Return the search in a text: words, `from:agent`, `to:domain`, `warning:code`, `for:person`.

    Quotes hold words together.
    """
    found: dict[str, list[str]] = {"": [], "from": [], "to": [], "warning": [], "for": []}
    for field, quoted, bare in TERM.findall(text[:300]):
        if term := (quoted or bare).strip():
            found[field].append(term)
    return Wanted(
        words=tuple(found[""]),
        asked_by=tuple(found["from"]),
        to=tuple(found["to"]),
        warnings=tuple(found["warning"]),
        assigned_to=tuple(found["for"]),
        warned=warned,
    )


SHOWN_OF_MAILBOX = ("id", "address", "name", "status", "provider")


def memberships_of(person: User) -> list[Membership]:
    """Return the memberships of this person, each with its mailbox, by address."""
    held = Membership.objects.filter(user=person).select_related("mailbox")
    shown = held.only("role", *(f"mailbox__{name}" for name in SHOWN_OF_MAILBOX))
    return list(shown.order_by("mailbox__address", "mailbox_id"))


def mailboxes_of(person: User) -> list[Mailbox]:
    """Return the mailboxes whose actions this person may see, by address."""
    return [held.mailbox for held in memberships_of(person)]


def page(
    mailboxes: Sequence[Mailbox],
    statuses: Sequence[Status],
    *,
    cursor: str | None,
    limit: int,
    order: Order,
    what: Wanted | None = None,
    where: Rows = ALL,
) -> Listed:
    """Return one page, with `shown` on each row, of those of `where` in these states.

    Raises `invalid_input` for a cursor that no list has given.
    """
    what = what or Wanted()
    take = WINDOW if what.anything else limit + 1
    after = order.read_cursor(cursor) if cursor else None
    keys = _keys(mailboxes, statuses, where, after=after, order=order, take=take)
    if not keys:
        return Listed(rows=[], next_cursor=None)
    found = _filter_matching([key[-1] for key in keys], what, at_most=limit + 1, order=order)
    rows = _read_rows(found[: limit + 1], mailboxes)
    if len(rows) > limit:
        rows = rows[:limit]
        return Listed(rows=rows, next_cursor=order.write_cursor(value_of(rows[-1], order)))
    stopped = what.anything and len(keys) == take
    return Listed(
        rows=rows,
        next_cursor=order.write_cursor(keys[-1]) if stopped else None,
        stopped_early=stopped,
    )


def find_by_ids(
    mailboxes: Sequence[Mailbox], ids: Sequence[UUID], *, what: Wanted
) -> list[PendingAction]:
    """Return those of these actions that belong to the mailboxes and match."""
    if not ids:
        return []
    found = _filter_matching(ids, what, at_most=len(ids), order=OLDEST)
    rows = _read_rows(found, mailboxes)
    return sorted(rows, key=lambda row: value_of(row, OLDEST))


def count_by_status(
    mailboxes: Sequence[Mailbox], statuses: Sequence[Status], where: Rows = ALL
) -> Counter[str]:
    """Return the number of actions in each state, counted up to `COUNTED` in each mailbox.

    Nobody needs the exact number of 48,113 pending actions.
    """
    keys = _by_mailbox(mailboxes, statuses)
    return count_first(
        where,
        keys=keys,
        order=("created_at", "id"),
        take=COUNTED,
        by="status",
    )


def count_waiting(person: User) -> int:
    """Return how many actions wait for a decision of this person, counted as in their list."""
    return count_pending(mailboxes_of(person), mine(person))


def count_pending(mailboxes: Sequence[Mailbox], where: Rows) -> int:
    """Return the number of pending actions among these, up to `COUNTED` in each mailbox."""
    return count_by_status(mailboxes, (Status.PENDING,), where).total()


def next_after(
    mailboxes: Sequence[Mailbox], action: PendingAction, *, order: Order, where: Rows
) -> PendingAction | None:
    """Return the next pending action: one after this in the order, else one from before it."""
    for cursor in (order.write_cursor(value_of(action, order)), None):
        listed = page(
            mailboxes, (Status.PENDING,), cursor=cursor, limit=2, order=order, where=where
        )
        for row in listed.rows:
            if row.pk != action.pk:
                return row
    return None


def place_of(
    mailboxes: Sequence[Mailbox],
    action: PendingAction,
    *,
    order: Order,
    where: Rows,
) -> int:
    """Return its place among the pending actions, 1 for the first; 0 if it is too far down."""
    keys = _keys(mailboxes, (Status.PENDING,), where, after=None, order=order, take=PLACES)
    return next((number for number, key in enumerate(keys, start=1) if key[-1] == action.pk), 0)


def _annotate_rows(actions: QuerySet[PendingAction]) -> QuerySet[PendingAction]:
    """Add `shown`, `reason`, `needed`, `given`, `doubtful`, `bounced`, `assigned` and `commented`.

    `reason` is what the proposer claims, encrypted; `_read_rows` decrypts it.
    `needed` is how many must approve by today's rules, like `policy.count_needed` for one action.
    `assigned` is the name of the person who takes care of it, if any.
    `doubtful` is True if it may have been sent, without proof of either, and `bounced` if a server
    has returned it for a recipient.
    """
    now = ApprovalPolicy.objects.filter(mailbox=OuterRef("mailbox")).values("approvals_needed")[:1]
    unproven = Exists(Attempt.objects.filter(is_unproven(), action=OuterRef("pk")))
    gone = Exists(find_gone().filter(action=OuterRef("pk")))
    needed = Greatest("approvals_needed", Coalesce(Subquery(now), 1))
    assigned = current_assignments().filter(action=OuterRef("pk"))
    name = Coalesce(
        NullIf("person__first_name", Value("")), "person__email", output_field=CharField()
    )
    note = ProposerNote.objects.filter(action=OuterRef("pk")).values("reason")[:1]
    return with_preview(actions).annotate(
        needed=needed,
        given=number_that_counts(),
        doubtful=unproven | gone | Q(restored_at__isnull=False),
        bounced=Exists(AuditEvent.objects.filter(action_id=OuterRef("pk"), event="bounced")),
        reason=Subquery(note),
        assigned=Subquery(assigned.values_list(name)[:1]),
        commented=Exists(Comment.objects.filter(action=OuterRef("pk"))),
    )


def _read_rows(ids: Sequence[UUID], mailboxes: Iterable[Mailbox]) -> list[PendingAction]:
    """Return the actions of these mailboxes in the order of the ids, with what lists show."""
    if not ids:
        return []
    mine = {each.pk: each for each in mailboxes}
    chosen = PendingAction.objects.filter(pk__in=ids).order_by().select_related("proposer")
    rows = {row.pk: row for row in _annotate_rows(chosen) if row.mailbox_id in mine}
    for row in rows.values():
        row.mailbox = mine[row.mailbox_id]
    opened = open_shown(rows[each] for each in ids if each in rows)
    for row in opened:
        stored = row.reason or ""  # type: ignore[attr-defined]
        row.reason = ProposerNote(action_id=row.pk, reason=stored).reason  # type: ignore[attr-defined]
    return opened


def _keys(
    mailboxes: Sequence[Mailbox],
    statuses: Sequence[Status],
    where: Rows,
    *,
    after: Sequence[Any] | None,
    order: Order,
    take: int,
) -> list[tuple[Any, ...]]:
    """Return the values of the order's fields for the first `take` rows after these values."""
    if order is BY_MAILBOX:
        return _keys_by_mailbox(mailboxes, statuses, where, after=after, take=take)
    actions = where
    keys = _by_mailbox(mailboxes, statuses)
    if order.fields[0] not in ("created_at", "-created_at"):
        # The indexes of these orders hold the pending actions only.
        (status,) = statuses
        actions = replace(where, also=Q(status=status))
        keys.pop("status")
    rows = actions.query().filter(order.follow(after)) if after else actions
    return first_rows(rows, keys=keys, order=order.fields, take=take)


def _keys_by_mailbox(
    mailboxes: Sequence[Mailbox],
    statuses: Sequence[Status],
    where: Rows,
    *,
    after: Sequence[Any] | None,
    take: int,
) -> list[tuple[Any, ...]]:
    """Return the keys in the order of the mailboxes.

    One statement counts how many mailboxes fill the page. All but the last are read as a whole.
    """
    ids = [each.pk for each in mailboxes]
    actions = where.query()
    if after is not None:
        here, *place = after
        if here not in ids:
            raise foreign_cursor()
        ids = ids[ids.index(here) :]
        actions = actions.filter(~Q(mailbox=here) | OLDEST.follow(place))
    keys = {"mailbox": ids, "status": statuses}
    counts = count_first(actions, keys=keys, order=OLDEST.fields, take=take, by="mailbox")
    chosen: list[UUID] = []
    total = 0
    for each in ids:
        if total >= take:
            break
        chosen.append(each)
        total += counts[each]
    found: list[tuple[Any, ...]] = []
    for some in (chosen[:-1], chosen[-1:]):
        keys = {"mailbox": some, "status": statuses}
        found += first_rows(actions, keys=keys, order=BY_MAILBOX.fields, take=take)
    found.sort(key=lambda key: (ids.index(key[0]), *key[1:]))
    return found[:take]


def _by_mailbox(
    mailboxes: Sequence[Mailbox], statuses: Sequence[Status]
) -> dict[str, Collection[Any]]:
    return {"mailbox": [each.pk for each in mailboxes], "status": statuses}


def _filter_matching(
    ids: Sequence[UUID], what: Wanted, *, at_most: int, order: Order
) -> Sequence[UUID]:
    """Return the ids of those of these actions that match, at most the first `at_most`.

    The beginning of the text is encrypted, so the rows are compared here and not in the database.
    """
    if not what.anything:
        return ids
    columns = (
        "pk",
        "revision",
        "revisions__preview",
        "revisions__sealed_preview",
        "proposer_name",
        "proposer__email",
        "proposer__first_name",
        "proposer__last_name",
        "assignment__person__email",
        "assignment__person__first_name",
        "assignment__person__last_name",
    )
    current = (
        PendingAction.objects.filter(pk__in=ids, revisions__number=F("revision"))
        .order_by(*order.across_mailboxes)
        .values_list(*columns)
    )
    found: list[UUID] = []
    for action_id, revision, preview, sealed, *names in current.iterator(chunk_size=200):
        opened = partial(open_preview, preview, sealed, action_id, revision)
        proposer, assigned = names[:4], [name or "" for name in names[4:]]
        if _matches(what, preview or {}, proposer, assigned, opened):
            found.append(action_id)
            if len(found) == at_most:
                break
    return found


def _matches(
    what: Wanted,
    preview: Mapping[str, Any],
    proposer: Sequence[str],
    assigned: Sequence[str],
    whole: Callable[[], Mapping[str, Any]],
) -> bool:
    """Return True if the current revision of an action matches; `whole` decrypts its preview."""
    warnings = preview.get("warnings") or ()
    if what.warned and all(warning.get("severity") == "fact" for warning in warnings):
        return False
    targets = [
        f"{target.get('name', '')} {target.get('address', '')}"
        for target in preview.get("targets", ())
    ]
    said = {str(value).casefold() for warning in warnings for value in warning.values()}
    if not (
        all(_is_in(word, *targets) for word in what.to)
        and all(_is_in(word, *proposer) for word in what.asked_by)
        and all(_is_in(word, *assigned) for word in what.assigned_to)
        and all(word.casefold() in said for word in what.warnings)
    ):
        return False
    # One text, because a mail can have a thousand recipients. No word has a NUL.
    open_text = "\0".join((str(preview.get("title", "")), *targets, proposer[0])).casefold()
    left = [word for word in what.words if word.casefold() not in open_text]
    excerpt = str(whole().get("excerpt", "")) if left else ""
    return all(_is_in(word, excerpt) for word in left)


def _is_in(word: str, *texts: str) -> bool:
    return any(word.casefold() in text.casefold() for text in texts)
