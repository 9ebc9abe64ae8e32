"""News about an action that a person should know before they decide, told once by a new revision.

An action stores the generations of its token and its mailbox that its present revision shows. A page
from before the news names an earlier revision, so it cannot approve.
"""

from collections.abc import Iterator, Sequence

from accounts.infra.texts import translatable
from accounts.models import ApiToken
from approvals.audit import chain
from approvals.core.types import PreviewWarning
from approvals.gate.revisions import add_notice
from approvals.models import PendingAction

ASK_OWNER = translatable("Ask its owner if the program should still send this.")
DECIDED_BEFORE = PreviewWarning(
    code="decided_before",
    title=translatable("An earlier decision about this no longer counts."),
    text=translatable("Look at the message and decide again."),
)


def add_news(
    action: PendingAction, warnings: Sequence[PreviewWarning] = ()
) -> Sequence[PreviewWarning]:
    """Add a revision with these warnings and all other news; return what it tells, if anything.

    The row is locked and pending. Without a key there is no new revision: nobody can approve what
    nobody can read, and the news is still there when a key is.
    """
    token = ApiToken.objects.filter(pk=action.token_id).first() if action.token_id else None
    news = {each.code: each for each in (*warnings, *_find_changes(action, token))}
    if not news and _has_void_decisions(action):
        news = {DECIDED_BEFORE.code: DECIDED_BEFORE}  # an older version told nobody
    told = tuple(news.values())
    if told and action.current.is_ours:
        add_notice(
            action,
            told,
            token_generation=token.generation if token else 0,
            mailbox_generation=action.mailbox.generation,
        )
    return told


def tell_news(
    action: PendingAction, warnings: Sequence[PreviewWarning] = ()
) -> Sequence[PreviewWarning]:
    """Do the same, and record it in the audit."""
    told = add_news(action, warnings)
    if told:
        chain.record(
            mailbox=action.mailbox_id,
            event="noticed",
            actor="worker",
            action_id=action.pk,
            revision=action.revision,
            code=told[0].code,
        )
    return told


def _find_changes(action: PendingAction, token: ApiToken | None) -> Iterator[PreviewWarning]:
    if token and token.generation != action.token_generation:
        yield _describe_token(token)
    if action.mailbox.generation != action.mailbox_generation:
        yield PreviewWarning(
            code="mailbox_changed",
            title=translatable("The mailbox was disconnected, or connected to another account."),
            text=translatable("This leaves through the account that is connected now."),
        )


def _has_void_decisions(action: PendingAction) -> bool:
    """Return True if there are decisions about this revision from an earlier round."""
    return action.decisions.filter(
        revision=action.revision, approval_round__lt=action.approval_round
    ).exists()


def _describe_token(token: ApiToken) -> PreviewWarning:
    if token.revoked_at is None:
        return PreviewWarning(
            code="token_narrowed",
            title=translatable("Rights were taken away from the token that proposed this."),
            text=ASK_OWNER,
        )
    return PreviewWarning(
        code="token_revoked",
        title=translatable(
            "The token that proposed this was revoked on %(time)s UTC.",
            time=f"{token.revoked_at:%Y-%m-%d %H:%M}",
        ),
        text=ASK_OWNER,
        severity="risk",
    )
