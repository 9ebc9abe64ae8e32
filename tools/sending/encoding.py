"""The encoding of a request as a message, with its refusal as a problem."""

from accounts.infra.problems import Problem
from tools.mail.message.compose import ComposeError, OutgoingMessage, Request, new_message


def encode(request: Request, *, message_id: str = "") -> OutgoingMessage:
    """Return the complete message, with a new Message-ID or the given one.

    Raises Problem `invalid_input` if no message can express exactly this.
    """
    try:
        return new_message(request, message_id=message_id)
    except ComposeError:
        raise Problem(
            "invalid_input", "The message cannot be encoded without changing its content."
        ) from None
