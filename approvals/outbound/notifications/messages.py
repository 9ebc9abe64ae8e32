"""The messages of channels, made at delivery: the outbox holds no content."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.conf import settings
from django.urls import reverse
from django.utils import translation
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from accounts.models import Membership, Role
from approvals.core.states import Status
from approvals.core.types import get_kind
from approvals.gate.find import open_shown, review_url, with_preview
from approvals.gate.reconcile import may_have_left
from approvals.gate.rules.conditions import waits_for_others
from approvals.models import (
    ApprovalPolicy,
    Content,
    Notification,
    NotificationChannel,
    NotificationSettings,
    PendingAction,
)
from approvals.outbound.notifications.channels.port import (
    NotificationItem,
    NotificationMessage,
    Transport,
)
from approvals.outbound.notifications.digest import summarize
from approvals.outbound.notifications.outbox import URGENT, Stage

MOST_WAITING = 100
PREVIEW_LENGTH = 200
TITLE_LENGTH = 100


def write_message(
    delivery: UUID,
    channel: NotificationChannel,
    transport: Transport,
    rows: Sequence[Notification],
    person: NotificationSettings,
) -> NotificationMessage:
    """Return the message of these rows, in the language of the person."""
    language = channel.user.language or settings.LANGUAGE_CODE
    with translation.override(language):
        items = _write_items(channel, transport, rows)
        is_digest = rows[0].stage == Stage.DIGEST
        # Digests of closed days and quiet hours wait, and are one message then.
        due, level = min(row.created_at for row in rows), Content(channel.content)
        return NotificationMessage(
            id=delivery,
            title=_("Your digest") if is_digest else _title(items),
            url=items[0].url if len(items) == 1 else settings.MAILHUB_PUBLIC_URL + reverse("queue"),
            items=() if is_digest else items,
            summary=summarize(person, due, content=level) if is_digest else (),
            urgent=any(row.stage in URGENT for row in rows),
            waiting=count_waiting(channel.user_id),
            language=language,
        )


def _write_items(
    channel: NotificationChannel, transport: Transport, rows: Sequence[Notification]
) -> tuple[NotificationItem, ...]:
    ids = {row.action_id for row in rows if row.action_id}
    actions = {
        action.pk: action
        for action in open_shown(
            with_preview(PendingAction.objects.filter(pk__in=ids)).select_related(
                "mailbox", "proposer"
            )
        )
    }
    caps = dict(
        ApprovalPolicy.objects.filter(
            mailbox__in={action.mailbox_id for action in actions.values()}
            | {row.mailbox_id for row in rows if row.mailbox_id}
        ).values_list("mailbox", "notify_content")
    )
    return tuple(
        _write_item(
            row, actions.get(row.action_id) if row.action_id else None, channel, transport, caps
        )
        for row in rows
    )


def _write_item(
    row: Notification,
    action: PendingAction | None,
    channel: NotificationChannel,
    transport: Transport,
    caps: dict[UUID, str],
) -> NotificationItem:
    why = describe_stage(row.stage, action)
    mailbox_id = action.mailbox_id if action else row.mailbox_id
    cap = caps.get(mailbox_id, Content.PREVIEW) if mailbox_id else Content.PREVIEW
    level = Content.least(channel.content, transport.most, cap)
    if action is None:
        shows = row.mailbox is not None and level != Content.LINK
        return NotificationItem(
            stage=row.stage,
            why=why,
            url=settings.MAILHUB_PUBLIC_URL
            + (reverse("mailbox", args=[row.mailbox_id]) if row.mailbox_id else reverse("queue")),
            mailbox=row.mailbox.address if shows and row.mailbox else "",
        )
    if row.stage == Stage.FAILED and may_have_left(action):
        doubt = (
            _("It may have been sent already.")
            if _is_mail(action)
            else _("It may have happened already.")
        )
        why = f"{why} {doubt}"
    return NotificationItem(
        stage=row.stage,
        why=why,
        url=review_url(action),
        action_id=action.pk,
        **_shown(action, level),
    )


def _shown(action: PendingAction, level: Content) -> dict[str, str]:
    if level == Content.LINK:
        return {}
    preview: dict[str, Any] = action.shown or {}  # type: ignore[attr-defined]
    parts = {
        "mailbox": action.mailbox.address,
        "sender": _line(action.proposed_by),
        "subject": _line(preview.get("title", ""))[:TITLE_LENGTH],
    }
    if level == Content.PREVIEW:
        parts["preview"] = _line(preview.get("excerpt", ""))[:PREVIEW_LENGTH]
    return parts


def _line(text: str) -> str:
    """Return the text on one line, without characters that nobody sees: a line break of a mail must not
    end a header, and none may turn the words around it.
    """
    return " ".join("".join(mark if mark.isprintable() else " " for mark in str(text)).split())


def _is_mail(action: PendingAction | None) -> bool:
    return action is None or not get_kind(action.kind).words


def describe_stage(stage: str, action: PendingAction | None) -> str:
    """Return the sentence that says why a person is notified, for a row about this action."""
    if stage == Stage.UNKNOWN and not _is_mail(action):
        return _("Nobody knows whether a proposal was carried out. It needs a ruling.")
    if stage == Stage.ALSO_SENT and not _is_mail(action):
        return _("A late answer shows that a proposal was carried out all the same, or twice.")
    if stage == Stage.FAILED and action is not None and action.status == Status.CANCELLED:
        return _("A proposal that you approved was withdrawn.")
    sentences: dict[str, str] = {
        Stage.WAITING: _("A proposal waits for your decision."),
        Stage.HALF_TIME: _("A proposal still waits. Half of its time has passed."),
        Stage.LAST_HOUR: _("A proposal expires within an hour."),
        Stage.ESCALATED: _("A proposal still waits for a decision, so you are asked too."),
        Stage.RETURNED: _("A proposal came back and needs a new decision."),
        Stage.ANSWERED: _("Your request for changes was answered with another proposal."),
        Stage.MENTIONED: _("Somebody mentioned you in a comment."),
        Stage.ASSIGNED: _("Somebody assigned a mail to you."),
        Stage.UNKNOWN: _("Nobody knows whether a mail was sent. It needs a ruling."),
        Stage.ALSO_SENT: _("A late answer shows that a mail was sent all the same, or twice."),
        Stage.FAILED: _("A proposal that you approved failed."),
        Stage.BOUNCED: _("A mail that you approved did not reach a recipient."),
        Stage.RECONNECT: _("A mailbox must be reconnected."),
        Stage.DIGEST: _("Your digest."),
    }
    return sentences.get(stage, "")  # a later version may have other stages


def _title(items: Sequence[NotificationItem]) -> str:
    if len(items) > 1:
        return ngettext(
            "%(count)s item needs your attention",
            "%(count)s items need your attention",
            len(items),
        ) % {"count": len(items)}
    only = items[0]
    return f"{only.why} {only.subject}".strip() if only.subject else only.why.rstrip(".")


def count_waiting(person: int) -> int:
    """Return how many actions wait in mailboxes where this person decides, up to a limit."""
    mine = Membership.objects.filter(user=person, role__in=Role.at_least(Role.APPROVER))
    waiting = PendingAction.objects.filter(
        ~waits_for_others(person), mailbox__in=mine.values("mailbox"), status=Status.PENDING
    )
    return waiting.order_by()[:MOST_WAITING].count()


def describe_code(code: str) -> str:
    """Return a sentence for a code of the outbox; an unknown code is returned as it is."""
    if not code:
        return ""
    if code.startswith("http_"):
        return _("The service answered %(status)s.") % {"status": code.removeprefix("http_")}
    return {
        "decided": _("It was decided before."),
        "expired": _("It had expired."),
        "seen": _("You were looking at it."),
        "no_right": _("You have decided, or may no longer do so."),
        "not_active": _("Your account was not active."),
        "solved": _("The mailbox works again."),
        "nothing": _("There was nothing to report."),
        "channel_paused": _("The channel was paused."),
        "worker_lost": _("The worker ended while it sent. It is not sent again."),
        "channel_error": _("The channel failed in an unexpected way."),
        "no_mail_server": _("This server sends no mail. Ask your administrator."),
        "address_not_proven": _("Your address is not proven."),
        "smtp_refused": _("The mail server refused it."),
        "smtp_not_sent": _("The mail server did not take it."),
        "smtp_unknown": _("The mail server gave no answer."),
        "address_unusable": _("The address cannot be used any more. Add the channel again."),
        "host_refused": _("This host cannot be used."),
        "unreachable": _("The service could not be reached."),
        "no_answer": _("The service gave no answer."),
        "subscribe_again": _("The browser must turn notifications on again."),
    }.get(code, code)
