"""Texts for reviewers: usual notes of a rejection or a request for changes, by mailbox."""

from collections import defaultdict

from django.db import transaction
from django.db.models import QuerySet

from accounts.access.roles import has_role
from accounts.infra.problems import Problem
from accounts.infra.texts import translatable
from accounts.models import Mailbox, Role, User
from approvals.audit import chain
from approvals.models import ReviewText

MOST = 20  # of each purpose


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
    if not (key.isascii() and key.isdecimal() and len(key) < 19):
        return None
    return texts_of(mailbox).filter(pk=int(key)).first()


@transaction.atomic
def save_text(
    *, mailbox: Mailbox, person: User, text: ReviewText, purpose: str, title: str, words: str
) -> None:
    """Store a new or changed text of a mailbox; raises `forbidden` and `conflict`."""
    _refuse_non_manager(mailbox, person)
    others = ReviewText.objects.filter(mailbox=mailbox, purpose=purpose).exclude(pk=text.pk)
    if others.filter(title=title).exists():
        raise Problem("conflict", "There is a text with this title already.")
    if others.count() >= MOST:
        raise Problem("conflict", translatable("There are %(most)s texts already.", most=str(MOST)))
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
