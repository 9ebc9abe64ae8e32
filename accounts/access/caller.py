"""Who asks, and by which door."""

from dataclasses import dataclass, field
from typing import Literal

from accounts.access.quotas import Usage
from accounts.models import ApiToken, User

Surface = Literal["rest", "mcp", "agent", "web", "command"]


@dataclass(frozen=True, kw_only=True)
class Caller:
    """A person, or a token that a person owns.

    `scopes` limits a token; a signed-in person has none to limit. `name` is the token's name:
    together with the user it is the proposer, so that a rotated token keeps its idempotency keys.
    `usage` holds what is left of the quotas that this request has counted for, by name.
    """

    user: User
    surface: Surface
    token: ApiToken | None = None
    scopes: frozenset[str] = field(default_factory=frozenset)
    usage: dict[str, Usage] = field(default_factory=dict, compare=False)

    @property
    def name(self) -> str:
        return self.token.name if self.token else ""

    @property
    def is_person(self) -> bool:
        """True for a signed-in person's own page; tokens, the chat and commands are programs."""
        return self.surface == "web" and self.token is None

    def may(self, scope: str) -> bool:
        return self.token is None or scope in self.scopes
