"""Findings of a verification."""

from dataclasses import dataclass
from typing import Literal
from uuid import UUID

Wrong = Literal["altered", "removed", "cut", "rewritten", "unapproved", "unclaimed", "unsealed"]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A defect of a chain, with the number of its event; 0 if no event holds it."""

    chain: UUID
    sequence: int
    wrong: Wrong
    detail: str


def make_finding(chain: UUID, sequence: int, wrong: Wrong, detail: str) -> Finding:
    return Finding(chain=chain, sequence=sequence, wrong=wrong, detail=detail)
