"""The kinds of values that several variables share."""

from typing import Annotated, TypeVar

from pydantic import AfterValidator, BeforeValidator
from pydantic_settings import NoDecode

Entry = TypeVar("Entry")


def split(value: object) -> object:
    """Return the entries of a comma-separated text; anything else is returned as it is."""
    if not isinstance(value, str):
        return value
    return [part.strip() for part in value.split(",") if part.strip()]


def split_lower(value: object) -> object:
    return split(value.lower() if isinstance(value, str) else value)


Listed = Annotated[list[Entry], NoDecode, BeforeValidator(split)]
ListedLower = Annotated[list[Entry], NoDecode, BeforeValidator(split_lower)]


def begins_with(*schemes: str) -> AfterValidator:
    """Return the check of an address, which may be empty."""

    def check(url: str) -> str:
        if url and not url.startswith(schemes):
            raise ValueError(f"must start with {', '.join(schemes)}")
        return url

    return AfterValidator(check)
