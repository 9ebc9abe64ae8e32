"""The point at which a chain begins in the database, after its first events went to the archive.

The row of the chain names it, and nobody without the key can make its signature. So somebody who
removes events from the database and moves this point is noticed. The claims that went with the
events are signed at their attempts, which stay.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from approvals.audit.chain import Link, keyed_hash
from approvals.audit.verified import BEGINNING
from approvals.models import Attempt, AuditChain


@dataclass(frozen=True, kw_only=True)
class Beginning:
    """The number of archived events of a chain, the hash of the last of them, and the signature."""

    chain: UUID
    length: int = 0
    hash: str = BEGINNING
    seal: str = ""

    @property
    def is_ours(self) -> bool:
        """Return True if mailhub archived the events before it; True for the first event."""
        if self.length == 0:
            return self.hash == BEGINNING
        return self.seal == sign(self.chain, self.length, self.hash)


def sign(chain: UUID, length: int, last: str) -> str:
    return keyed_hash(f"archived {chain} {length} {last}")


def sign_claim(action: UUID, fence: int) -> str:
    return keyed_hash(f"archived claim {action} {fence}")


def move(beginning: Beginning, links: Sequence[Link]) -> Beginning | None:
    """Move the beginning of a chain past these events; return it, or None if it was elsewhere."""
    last = links[-1]
    seal = sign(beginning.chain, last.sequence, last.hash)
    mine = AuditChain.objects.filter(
        pk=beginning.chain, archived=beginning.length, archived_hash=beginning.hash
    )
    if not mine.update(archived=last.sequence, archived_hash=last.hash, archived_seal=seal):
        return None
    return Beginning(chain=beginning.chain, length=last.sequence, hash=last.hash, seal=seal)


def sign_claims(links: Iterable[Link]) -> None:
    """Sign the attempts of the claims among these events."""
    claims = {
        (link.action_id, _members(link.data).get("fence"))
        for link in links
        if link.event == "claimed"
    }
    if not claims:
        return
    attempts = [
        attempt
        for attempt in Attempt.objects.filter(action__in={action for action, _ in claims})
        if (attempt.action_id, attempt.fence) in claims
    ]
    for attempt in attempts:
        attempt.claim_seal = sign_claim(attempt.action_id, attempt.fence)
    Attempt.objects.bulk_update(attempts, ["claim_seal"])


def _members(data: Any) -> Mapping[str, Any]:
    return data if isinstance(data, dict) else {}
