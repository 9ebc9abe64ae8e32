"""Findings of a verification."""

from dataclasses import dataclass
from typing import Literal
from uuid import UUID

Wrong = Literal["altered", "removed", "cut", "rewritten", "unapproved", "unclaimed", "unsealed"]


@dataclass(frozen=True)
class Finding:
    """A defect of a chain, with the number of its event; 0 if no event holds it."""

    chain: UUID
    sequence: int
    wrong: Wrong
    detail: str
