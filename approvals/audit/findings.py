"""What a verification finds."""

from dataclasses import dataclass
from typing import Literal
from uuid import UUID

Wrong = Literal["altered", "removed", "cut", "rewritten", "unapproved", "unclaimed", "unsealed"]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What is wrong with a chain, and at which of its events; 0 for what stands in no event."""

    chain: UUID
    sequence: int
    wrong: Wrong
    detail: str
