"""Keyed signatures that prove that mailhub itself wrote a row.

Somebody who can write to the database, but has no key, cannot make one.

The signature of a decision covers the person, how they had signed in, and exactly the content that
they decided about. The signature of an order to leave is made again each time an action becomes
`approved`. It covers the fence, so it is good for one claim.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from accounts.infra.keys import seal_holds, seal_of

DECISION = "mailhub decision"
ORDER = "mailhub order to leave"


def seal_of_decision(**said: Any) -> str:
    """Return the signature of a decision; takes the arguments of `_decided`."""
    return seal_of(*_decided(**said), purpose=DECISION)


def decision_holds(seal: str, **said: Any) -> bool:
    """Return True if mailhub wrote exactly this decision."""
    return seal_holds(seal, *_decided(**said), purpose=DECISION)


def seal_of_order(action: Any) -> str:
    """Return the signature that lets an action leave once, from the state that it shows now."""
    return seal_of(*_ordered(action), purpose=ORDER)


def order_holds(action: Any) -> bool:
    """Return True if mailhub ordered this action to leave with its present content and fence.

    A claim moves the fence, so an order is good for one claim.
    """
    return seal_holds(action.order_seal, *_ordered(action), purpose=ORDER)


def _decided(
    *,
    action: Any,
    person: int,
    method: str,
    verdict: str,
    revision: int,
    approval_round: int,
    digest: str,
    created_at: datetime,
) -> Iterable[Any]:
    at = created_at.astimezone(UTC).isoformat(timespec="microseconds")
    return str(action), person, method, str(verdict), revision, approval_round, digest, at


def _ordered(action: Any) -> Iterable[Any]:
    return (
        str(action.pk),
        action.kind,
        str(action.mailbox_id),
        action.message_id,
        action.digest,
        action.revision,
        action.approval_round,
        action.fence,
    )
