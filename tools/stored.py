"""Values that are stored as JSON: each is read as a whole or refused, and written back unchanged."""

from collections.abc import Mapping
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from accounts.infra.problems import Problem
from accounts.infra.texts import translatable


class Unreadable(Problem):
    """A stored value that this version of mailhub cannot read; `fields` names the wrong members."""

    def __init__(self, name: str, fields: tuple[str, ...]) -> None:
        super().__init__(
            "transient",
            translatable(
                "This version of mailhub cannot read the stored %(name)s (%(fields)s)."
                " Update mailhub, and try again.",
                name=name,
                fields=", ".join(fields),
            ),
        )


class Stored(BaseModel):
    """A value that is stored as JSON. Unknown members are errors; nothing is coerced."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, validate_by_name=True)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """Return the value. Raises Unreadable for an unknown version, and for a missing, unknown or
        wrong member.
        """
        try:
            return cls.model_validate(dict(stored), by_alias=True, by_name=False)
        except ValidationError as error:
            wrong = (each["loc"] for each in error.errors(include_input=False, include_url=False))
            fields = tuple(".".join(str(part) for part in loc) for loc in wrong)
            raise Unreadable(cls.__name__, fields) from None

    def as_json(self) -> dict[str, Any]:
        """Return the members that were given, and no defaults.

        A value that was read is the same JSON again, so its digest stays the same.
        """
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)
