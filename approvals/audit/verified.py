"""The verified end of the audit: MAILHUB_HOME/audit-verified.json, signed like the anchors.

A verification without findings writes it, and the next one may continue from there. It is outside
the database, so somebody who can write only there cannot move it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from django.conf import settings
from django.utils import timezone

from accounts.infra.foreign_text import load_json
from approvals.audit.chain import keyed_hash

BEGINNING = "0" * 64


@dataclass(frozen=True, kw_only=True)
class End:
    """A place in a chain: its number of events, the last one's hash, and the approved actions then.

    Without a hash the events before it were not read.
    """

    length: int = 0
    hash: str | None = BEGINNING
    approved: frozenset[UUID] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Verified:
    """The verified end of each chain, and the highest keys of verified decisions and attempts."""

    ends: Mapping[UUID, End]
    decisions: int
    attempts: int


def store(verified: Verified) -> None:
    """Replace the stored end."""
    said = {
        "at": timezone.now().isoformat(),
        "chains": {
            str(chain): [end.length, end.hash, sorted(map(str, end.approved))]
            for chain, end in verified.ends.items()
        },
        "decisions": verified.decisions,
        "attempts": verified.attempts,
    }
    path = _path()
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".unfinished")
    unfinished.touch(mode=0o600)
    unfinished.write_text(json.dumps({**said, "seal": _sign(said)}))
    unfinished.replace(path)


def load() -> Verified | None:
    """Return the stored end, or None if it is missing or its signature is not ours."""
    try:
        said = load_json(_path().read_text())
        if said.pop("seal") != _sign(said):
            return None
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        return None
    return Verified(
        ends={
            UUID(chain): End(length=length, hash=head, approved=frozenset(map(UUID, approved)))
            for chain, (length, head, approved) in said["chains"].items()
        },
        decisions=said["decisions"],
        attempts=said["attempts"],
    )


def forget() -> None:
    """Forget the place, because the database was replaced: the next verification reads everything."""
    _path().unlink(missing_ok=True)


def _path() -> Path:
    return Path(settings.MAILHUB_HOME) / "audit-verified.json"


def _sign(said: Mapping[str, Any]) -> str:
    return keyed_hash(json.dumps(said, sort_keys=True))
