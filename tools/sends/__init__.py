"""Sending: the tools that propose, and the kinds that carry out what a person has approved."""

from tools.sends.kinds import ForwardMail, ReplyMail, SendMail
from tools.sends.proposing import (
    Proposed,
    forward_email,
    proposed,
    reply_email,
    request_digest,
    send_draft,
    send_email,
)

__all__ = [
    "ForwardMail",
    "Proposed",
    "ReplyMail",
    "SendMail",
    "forward_email",
    "proposed",
    "reply_email",
    "request_digest",
    "send_draft",
    "send_email",
]
