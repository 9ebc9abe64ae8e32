"""Translation of provider errors into problems for the caller and into the mailbox's health."""

from collections.abc import Iterator
from contextlib import contextmanager

from accounts.connect import mailbox_status
from accounts.infra.problems import Problem, not_found
from accounts.infra.texts import translatable
from accounts.models import Mailbox
from tools.providers.errors import (
    Busy,
    NotAuthorized,
    NotFound,
    NotPermitted,
    ProviderError,
    Refused,
    TokenRefused,
    Unavailable,
    Unsupported,
)

RETRY_SECONDS = 30


@contextmanager
def map_errors(mailbox: Mailbox) -> Iterator[None]:
    """Raise provider errors of reads as problems, and show an unreachable mailbox on its page.

    An unreachable mailbox is a `transient` problem.
    """
    if mailbox.status == Mailbox.Status.NEEDS_REAUTH:
        raise _reconnect(mailbox)
    try:
        yield
    except NotAuthorized:
        mailbox_status.mark_login_refused(mailbox)
        raise _reconnect(mailbox) from None
    except NotPermitted as error:
        raise Problem("auth_error", error.detail, required_scope=error.required_scope) from None
    except TokenRefused as error:
        raise Problem("auth_error", error.detail) from None
    except Unsupported as error:
        raise Problem(
            "invalid_input", error.detail or translatable("This mailbox cannot do that.")
        ) from None
    except NotFound as error:
        if error.detail:
            raise Problem("not_found", error.detail) from None
        raise not_found("The message or folder does not exist, or you may not see it.") from None
    except Refused as error:
        if error.code == "too_large":
            raise Problem("too_large", error.detail) from None
        raise Problem(
            "invalid_input", error.detail or translatable("The mail server refused the request.")
        ) from None
    except Unavailable as error:
        if error.pauses:
            raise Problem(
                "rate_limited",
                "The mail provider asks to try again later.",
                retry_after=error.retry_after or RETRY_SECONDS,
            ) from None
        if not isinstance(error, Busy):
            mailbox_status.mark_unreachable(mailbox.id)
        raise Problem(
            "transient",
            "The mailbox cannot be reached right now.",
            retry_after=error.retry_after or RETRY_SECONDS,
        ) from None
    except ProviderError:
        raise Problem(
            "transient", "The mailbox gave no answer.", retry_after=RETRY_SECONDS
        ) from None
    mailbox_status.mark_working(mailbox)


def _reconnect(mailbox: Mailbox) -> Problem:
    command = f"manage.py connect_mailbox {mailbox.provider}"
    return Problem(
        "auth_error",
        translatable(
            "The mailbox must be reconnected: its sign-in was refused. `%(command)s` does that.",
            command=command,
        ),
    )
