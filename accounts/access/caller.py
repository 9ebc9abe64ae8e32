"""The caller of a request, and the surface that the request came through."""

from dataclasses import dataclass, field
from typing import Literal

from accounts.access.quotas import Usage
from accounts.models import ApiToken, User

Surface = Literal["rest", "mcp", "agent", "web", "command"]


@dataclass(frozen=True, kw_only=True)
class Caller:
    """A person, or a token that a person owns.

    `scopes` limits a token; a signed-in person has no such limit. `name` is the token's name.
    Together with the user it is the proposer, so a rotated token keeps its idempotency keys.
    `usage` holds, by name, the rest of each quota that this request has counted for.
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
        """Return True on a signed-in person's own page; tokens, chat and commands are programs."""
        return self.surface == "web" and self.token is None

    def may(self, scope: str) -> bool:
        return self.token is None or scope in self.scopes
