"""The time before which an approved mail does not leave."""

from datetime import UTC, datetime, timedelta

from accounts.infra.problems import FieldError, Problem
from accounts.infra.texts import translatable

LONGEST_DELAY = timedelta(days=30)


def check_send_time(send_at: datetime | None) -> datetime | None:
    """Return the time. A time that has passed does not delay the mail, so it is no error.

    Raises Problem `invalid_input` if it is more than 30 days away, in either direction.
    """
    if send_at is None or abs(send_at - datetime.now(UTC)) <= LONGEST_DELAY:
        return send_at
    if send_at < datetime.now(UTC):
        detail, message = "The send time has passed.", translatable("is more than 30 days ago")
    else:
        detail = "The send time can be at most 30 days ahead."
        message = translatable("is more than 30 days away")
    raise Problem("invalid_input", detail, errors=(FieldError(field="send_at", message=message),))
