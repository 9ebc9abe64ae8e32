"""A mail that is stored as it is given: not composed, not cleaned and not checked."""

from hashlib import sha256
from typing import Any
from uuid import uuid4

from accounts.access.caller import Caller
from accounts.models import Mailbox
from approvals.core.types import Preview, Proposal, Target
from approvals.gate import propose
from approvals.models import PendingAction

MIRA = "mira@northwind.example"
# Members that the payload of every plain mail has.
PLAIN: dict[str, Any] = {
    "version": 1,
    "kind": "mail.send",
    "cc": [],
    "bcc": [],
    "html": None,
    "attachments": [],
    "importance": "normal",
    "in_reply_to": "",
    "references": [],
    "original": "",
    "reply_all": False,
    "comment": "",
    "draft": None,
    "send_at": None,
    "save_to_sent_items": True,
}


def store_mail(caller: Caller, mailbox: Mailbox, **members: Any) -> PendingAction:
    """Return a pending mail.send; `members` replace members of its payload."""
    source = b"Subject: Lunch\r\n\r\n"
    message_id = f"<{uuid4().hex}@x.example>"
    payload = {
        **PLAIN,
        "mailbox": str(mailbox.pk),
        "from": mailbox.address,
        "to": [MIRA],
        "subject": "Lunch",
        "text": "Lunch?",
        "message_id": message_id,
        "source_sha256": sha256(source).hexdigest(),
        **members,
    }
    proposal = Proposal(
        kind="mail.send",
        payload=payload,
        preview=Preview(
            title=payload["subject"],
            targets=(Target(address=MIRA, role="to"),),
            excerpt="x",
            fingerprint="x",
        ),
        message_id=message_id,
        blobs=(source,),
    )
    action, _ = propose.propose(
        caller=caller,
        mailbox=mailbox,
        tool="send_email",
        proposal=proposal,
        key=None,
        request_digest="x",
    )
    return action
