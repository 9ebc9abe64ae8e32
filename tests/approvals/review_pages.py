"""Parts of the queue and the review page for tests: their text, a digest, and many actions."""

from datetime import timedelta
from typing import Any

from django.utils import timezone

from accounts.models import Mailbox, User
from approvals.models import Author, PendingAction, Revision


def text_of(answer: Any) -> str:
    return str(answer.content.decode())


def seal_of(action_id: str) -> dict[str, Any]:
    action = PendingAction.objects.get(pk=action_id)
    return {"digest": action.digest, "revision": action.revision}


def filled(mailbox: Mailbox, proposer: User, count: int, *, agent: str = "agent") -> None:
    """Create this many waiting actions, as the gate stores them."""
    now = timezone.now()
    actions = [
        PendingAction(
            kind="mail.send",
            tool="send_email",
            mailbox=mailbox,
            proposer=proposer,
            proposer_name=agent,
            digest=f"{n:064x}",
            message_id=f"<{mailbox.pk}{n}@x>",
            fingerprint="f",
            created_at=now - timedelta(seconds=n),
            expires_at=now + timedelta(days=1),
        )
        for n in range(count)
    ]
    PendingAction.objects.bulk_create(actions)
    Author.objects.bulk_create(Author(action=action, person=proposer) for action in actions)
    Revision.objects.bulk_create(
        Revision(
            action=action,
            number=1,
            author=proposer,
            payload={"text": "long " * 20},
            digest=action.digest,
            preview={
                "title": f"Number {n}",
                "excerpt": "Hello",
                "warnings": [],
                "targets": [
                    {
                        "address": f"p{n}@northwind.example",
                        "role": "to",
                        "name": "",
                        "external": True,
                    }
                ],
            },
            created_at=now,
        )
        for n, action in enumerate(actions)
    )
