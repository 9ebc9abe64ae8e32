"""Comments of reviewers on an action: for the members of its mailbox, never for anybody else."""

from django.db import transaction

from accounts.infra.database import database_now
from accounts.infra.problems import FieldError, Problem
from accounts.infra.texts import translatable
from accounts.models import Membership, User
from approvals.audit import chain
from approvals.gate.find import lock_action
from approvals.gate.rights import may_decide
from approvals.models import Comment, PendingAction
from approvals.outbound.notifications import outbox
from approvals.pages.discussion.mentions import find_mentioned

LONGEST = 2000
MOST = 200  # comments on one action


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
