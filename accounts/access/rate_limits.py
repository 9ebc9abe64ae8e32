"""Rate limits for tokens and the chat: a runaway program must not flood the reader or the server.

Each limit holds for one token, and three times as much for all tokens of one person together. The
counts are shared by all processes (`accounts.access.quotas`). Proposals and stored bytes of signed-in
people, and of their chat, have counts of their own: a program must not keep its person from an edit.
"""

from collections.abc import Callable
from typing import Any

from django.conf import settings

from accounts.access.caller import Caller
from accounts.access.quotas import Quota, Usage, count, count_often, headers_of, refusal_of, take
from accounts.infra.texts import translatable
from accounts.models import User

MINUTE = 60
DAY = 24 * 60 * MINUTE
MEGABYTE = 1024 * 1024
TOKENS_OF_A_PERSON = 3  # the limit for all tokens of a person, as a multiple of one token's limit


def count_request(caller: Caller) -> None:
    """Count one request with a token, of any kind; raises Problem `rate_limited`."""
    if caller.token is None:
        return
    refusal = translatable("This token has sent too many requests within a minute.")
    amount = settings.MAILHUB_REQUESTS_PER_MINUTE
    _count(caller, "requests", amount, MINUTE, refusal)


def count_proposal(caller: Caller) -> None:
    """Count one proposal; raise Problem `rate_limited` with the seconds to wait if there is no room."""
    amount = settings.MAILHUB_PROPOSALS_PER_MINUTE
    if caller.token is None:
        refusal = translatable(
            "You have made too many proposals within a minute. Nothing was stored."
        )
        _count(caller, "own-proposals", amount, MINUTE, refusal)
        return
    refusal = translatable(
        "This token has made too many proposals within a minute. Nothing was stored."
    )
    _count(caller, "proposals", amount, MINUTE, refusal)


def count_stored(caller: Caller, size: int) -> None:
    """Count the bytes of an upload or of a proposal's attachments; raise Problem `rate_limited`."""
    if not size:
        return
    if caller.token is None:
        count_stored_by(caller.user, size)
        return
    refusal = translatable(
        "This token has reached its limit of stored bytes in a day. Nothing was stored."
    )
    amount = settings.MAILHUB_STORED_MEGABYTES_PER_DAY * MEGABYTE
    # Small slices: a server that restarts often must not use up the bytes of a day.
    _count(caller, "stored", amount, DAY, refusal, size=size, unit="content-bytes", slices=1000)


def count_stored_by(person: User, size: int) -> None:
    """Count the bytes of a mail that a person writes or edits; raise Problem `rate_limited`."""
    refusal = translatable(
        "You have reached your limit of stored bytes in a day. Nothing was stored."
    )
    amount = settings.MAILHUB_STORED_MEGABYTES_PER_DAY * MEGABYTE
    quota = Quota(name="own-stored", amount=amount, seconds=DAY, refusal=refusal)
    take(quota, f"user:{person.pk}", size)


def count_upload(caller: Caller, size: int) -> None:
    """Count one upload and its bytes; raises Problem `rate_limited`."""
    refusal = translatable(
        "This token has reached its limit of uploads in a day. Nothing was stored."
    )
    if caller.token is not None:
        amount = settings.MAILHUB_UPLOADS_PER_DAY
        _count(caller, "uploads", amount, DAY, refusal, counting=count)
        count_stored(caller, size)


def count_chat(caller: Caller) -> None:
    """Count one request of a caller to the chat, all threads together; raises `rate_limited`."""
    refusal = translatable(
        "You have asked the chat too often within a minute. Wait a little, then ask again."
    )
    amount = settings.AGENT_REQUESTS_PER_MINUTE
    _count(caller, "chat", amount, MINUTE, refusal, counting=count)


def rate_limit_headers(caller: Caller) -> dict[str, str]:
    """Return the RateLimit fields for the answer to this caller's request."""
    return headers_of(caller.usage.values())


def _count(
    caller: Caller,
    name: str,
    amount: int,
    seconds: int,
    refusal: str,
    *,
    size: int = 1,
    counting: Callable[[Quota, str, int], Usage] = count_often,
    **more: Any,
) -> None:
    for subject, factor in _subjects(caller):
        quota = Quota(name=name, amount=amount * factor, seconds=seconds, refusal=refusal, **more)
        _note(caller, counting(quota, subject, size))


def _subjects(caller: Caller) -> list[tuple[str, int]]:
    """Return the token and its person, each with the factor for its limit."""
    person = f"user:{caller.user.pk}"
    return (
        [(person, 1)]
        if caller.token is None
        else [(f"token:{caller.token.pk}", 1), (person, TOKENS_OF_A_PERSON)]
    )


def _note(caller: Caller, usage: Usage) -> None:
    """Keep the tighter usage of token and person for the headers; raise if it was refused."""
    kept = caller.usage.get(usage.quota.name)
    if kept is None or not usage.granted or usage.remaining < kept.remaining:
        caller.usage[usage.quota.name] = usage
    if not usage.granted:
        raise refusal_of(usage)
