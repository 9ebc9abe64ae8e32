"""Comments with the people that they name, assignments, and texts for the notes of decisions."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet

from accounts.access.roles import has_role
from accounts.infra.database import database_now
from accounts.infra.foreign_text import parse_number
from accounts.infra.problems import FieldError, Problem
from accounts.infra.texts import translatable
from accounts.models import Mailbox, Membership, Role, User
from approvals.audit import chain
from approvals.core.states import FINAL
from approvals.gate.load import lock_action
from approvals.gate.rules.policy import may_decide
from approvals.models import Assignment, Comment, PendingAction, ReviewText
from approvals.outbound.notifications import outbox

LONGEST = 2000
MOST = 200  # comments on one action
# An address such as mira@northwind.example is no mention.
AT = re.compile(r"(?:^|(?<=[\s(,;:\"'“„]))@(?=\S)")
SHOWN = 40  # characters of a mention that means nobody
MOST_TEXTS = 20  # of each purpose


@transaction.atomic
def add_comment(*, action: PendingAction, person: User, text: str) -> Comment:
    """Store a comment, and notify the mentioned members.

    The audit names the comment and the mentioned people, without the text. Raises `forbidden` for a
    person who may not decide, `conflict` if the content is removed, and `invalid_input`.
    """
    if not may_decide(person, action.mailbox):
        raise Problem("forbidden", "Only people who may approve in this mailbox comment here.")
    text = _check_text(text)
    members = Membership.objects.filter(mailbox=action.mailbox_id)
    mentioned = find_mentioned(text, User.objects.filter(pk__in=members.values("user")))
    locked = lock_action(action.pk)
    if locked.purged_at is not None:
        raise Problem("conflict", "The content of this action is removed.")
    if Comment.objects.filter(action=action).count() >= MOST:
        raise Problem("conflict", translatable("It has %(most)s comments already.", most=str(MOST)))
    now = database_now()
    comment = Comment.objects.create(action=action, person=person, text=text, created_at=now)
    others = sorted(each.pk for each in mentioned if each.pk != person.pk)
    chain.record(
        mailbox=action.mailbox_id,
        event="commented",
        actor=f"user:{person.pk}",
        action_id=action.pk,
        comment=comment.pk,
        mentioned=others,
    )
    outbox.add(
        [
            outbox.Event(
                stage=outbox.Stage.MENTIONED,
                people=others,
                action_id=action.pk,
                occasion=str(comment.pk),
            )
        ],
        now=now,
    )
    return comment


def list_comments(action: PendingAction) -> list[Comment]:
    """Return the comments on an action with their authors, the oldest first."""
    return list(Comment.objects.filter(action=action).select_related("person"))


def _check_text(text: str) -> str:
    """Return the text without white space at its ends; raises `invalid_input`."""
    text = text.replace("\r\n", "\n").strip()
    if not text:
        problem = translatable("Write a comment first.")
    elif len(text) > LONGEST:
        problem = translatable("The comment is too long. Use at most 2,000 characters.")
    else:
        return text
    raise Problem("invalid_input", problem, errors=(FieldError(field="text", message=problem),))


def find_mentioned(text: str, people: Iterable[User]) -> list[User]:
    """Return the people whom a text mentions, each once.

    The longest name counts, so "@Ada Byron" is not Ada Smith. Raises `invalid_input` for a mention
    that means nobody or several people: it would notify nobody, or the wrong person.
    """
    names: dict[str, list[User]] = {}
    for person in people:
        for name in set(_names_of(person)):
            names.setdefault(name, []).append(person)
    found: dict[int, User] = {}
    for mention in AT.finditer(text):
        rest = text[mention.end() :]
        meant = names.get(_longest_name(rest.casefold(), names), [])
        if len(meant) != 1:
            raise _refuse(rest, several=bool(meant))
        found[meant[0].pk] = meant[0]
    return list(found.values())


def _names_of(person: User) -> Iterator[str]:
    local, _, _ = person.email.partition("@")
    for name in (person.get_full_name(), person.get_short_name(), person.email, local):
        if name.strip():
            yield name.strip().casefold()


def _longest_name(rest: str, names: Iterable[str]) -> str:
    """Return the longest of the names with which a text begins, as a whole word; empty if none."""
    fitting = (name for name in names if rest.startswith(name) and not _goes_on(rest, len(name)))
    return max(fitting, key=len, default="")


def _goes_on(rest: str, end: int) -> bool:
    """Return True if the word goes on after `end`: a letter, or an address."""
    return bool(re.match(r"[\w@-]|\.\w", rest[end:]))


def _refuse(rest: str, *, several: bool) -> Problem:
    word = rest.split()[0][:SHOWN]
    text = (
        translatable("“@%(name)s” means several members. Write the address.", name=word)
        if several
        else translatable("“@%(name)s” is no member of this mailbox.", name=word)
    )
    return Problem("invalid_input", text, errors=(FieldError(field="text", message=text),))


@transaction.atomic
def assign(*, action: PendingAction, person: User, to: User | None) -> None:
    """Assign an open action to a member who may decide, or to nobody; notify that person.

    Raises `forbidden` if `person` may not decide, `invalid_input` if `to` may not, and `conflict`
    if the action has ended.
    """
    if not may_decide(person, action.mailbox):
        raise Problem("forbidden", "Only people who may approve in this mailbox assign mails.")
    if to is not None and to not in find_assignable(action):
        raise Problem("invalid_input", "Choose a person who may approve in this mailbox.")
    if lock_action(action.pk).status in FINAL:
        raise Problem("conflict", "This has ended, so nobody has to take care of it.")
    if to is None:
        changed = bool(Assignment.objects.filter(action=action).delete()[0])
    else:
        changed = not Assignment.objects.filter(action=action, person=to).exists()
        Assignment.objects.update_or_create(action=action, defaults={"person": to})
    if not changed:
        return
    event = chain.record(
        mailbox=action.mailbox_id,
        event="unassigned" if to is None else "assigned",
        actor=f"user:{person.pk}",
        action_id=action.pk,
        to=f"user:{to.pk}" if to else "nobody",
    )
    if to is not None and to.pk != person.pk:
        # Each assignment is news, also a second one to the same person.
        said = outbox.Event(
            stage=outbox.Stage.ASSIGNED,
            people=[to.pk],
            action_id=action.pk,
            occasion=str(event.sequence),
        )
        outbox.add([said], now=database_now())


def find_assigned(action: PendingAction) -> User | None:
    """Return the person who takes care of an action; None if that person may no longer decide."""
    found = current_assignments().filter(action=action).select_related("person").first()
    return found.person if found else None


def current_assignments() -> QuerySet[Assignment]:
    """Return the assignments to people who may still decide in the mailbox of the action."""
    may_decide = Membership.objects.filter(
        mailbox=OuterRef("action__mailbox"),
        user=OuterRef("person"),
        role__in=Role.at_least(Role.APPROVER),
    )
    return Assignment.objects.filter(Exists(may_decide))


def find_assignable(action: PendingAction) -> list[User]:
    """Return the people to whom an action can be assigned."""
    own = Membership.objects.filter(
        mailbox=action.mailbox_id, role__in=Role.at_least(Role.APPROVER)
    )
    people = User.objects.filter(pk__in=own.values("user"), is_active=True)
    return list(people.order_by("email"))


def texts_of(mailbox: Mailbox) -> QuerySet[ReviewText]:
    return ReviewText.objects.filter(mailbox=mailbox)


def texts_by_purpose(mailbox: Mailbox) -> dict[str, list[ReviewText]]:
    """Return the texts by the decision that they are for."""
    found: dict[str, list[ReviewText]] = defaultdict(list)
    for text in texts_of(mailbox):
        found[text.purpose].append(text)
    return dict(found)


def find_text(mailbox: Mailbox, key: str) -> ReviewText | None:
    """Return the text of this mailbox with this id; None for any other."""
    number = parse_number(key)
    return None if number is None else texts_of(mailbox).filter(pk=number).first()


@transaction.atomic
def save_text(
    *, mailbox: Mailbox, person: User, text: ReviewText, purpose: str, title: str, words: str
) -> None:
    """Store a new or changed text of a mailbox; raises `forbidden` and `conflict`."""
    _refuse_non_manager(mailbox, person)
    others = ReviewText.objects.filter(mailbox=mailbox, purpose=purpose).exclude(pk=text.pk)
    if others.filter(title=title).exists():
        raise Problem("conflict", "There is a text with this title already.")
    if others.count() >= MOST_TEXTS:
        raise Problem(
            "conflict", translatable("There are %(most)s texts already.", most=str(MOST_TEXTS))
        )
    text.mailbox, text.purpose, text.title, text.text = mailbox, purpose, title, words
    text.save()
    _record(mailbox, person, text, event="text_saved")


@transaction.atomic
def remove_text(*, mailbox: Mailbox, person: User, text: ReviewText) -> None:
    """Remove a text of a mailbox; raises `forbidden`."""
    _refuse_non_manager(mailbox, person)
    _record(mailbox, person, text, event="text_removed")
    text.delete()


def _refuse_non_manager(mailbox: Mailbox, person: User) -> None:
    if not has_role(person, mailbox, Role.MANAGER):
        raise Problem("forbidden", "Only managers of this mailbox can do this.")


def _record(mailbox: Mailbox, person: User, text: ReviewText, *, event: str) -> None:
    chain.record(
        mailbox=mailbox, event=event, actor=f"user:{person.pk}", text=text.pk, purpose=text.purpose
    )
