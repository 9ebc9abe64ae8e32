"""Keyed signatures that prove that mailhub itself wrote a decision, and digests of content.

Somebody who can write to the database, but has no key, cannot make one. The signature covers the
person, how they had signed in, and exactly the content that they decided about.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from accounts.infra.keys import sign_values, verify_values

DECISION = "mailhub decision"


def sign_decision(**said: Any) -> str:
    """Return the signature of a decision; takes the arguments of `_decision_parts`."""
    return sign_values(*_decision_parts(**said), purpose=DECISION)


def verify_decision(signature: str, **said: Any) -> bool:
    """Return True if mailhub wrote exactly this decision."""
    return verify_values(signature, *_decision_parts(**said), purpose=DECISION)


def _decision_parts(
    *,
    action: Any,
    person: int,
    method: str,
    verdict: str,
    revision: int,
    approval_round: int,
    digest: str,
    created_at: datetime,
    membership: int | None,
    account_generation: int,
) -> Iterable[Any]:
    at = created_at.astimezone(UTC).isoformat(timespec="microseconds")
    said = (str(action), person, method, str(verdict), revision, approval_round, digest, at)
    # Decisions of older versions keep the signature that they have always had.
    return said if membership is None else (*said, membership, account_generation)


def digest_of(content: Mapping[str, Any]) -> str:
    """Return the SHA-256 of the canonical JSON, as 64 hex digits.

    Canonical means sorted keys, no white space, UTF-8.
    """
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()
