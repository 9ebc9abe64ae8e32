"""The variables about programs that call the API."""

from typing import Annotated

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, NoDecode

from accounts.infra.foreign_text import parse_url


class ApiEnvironment(BaseSettings):
    """Fields of `mailhub.environment.Environment` that concern the API; each description is a line
    in `.env.example`.
    """

    MAILHUB_CORS_ORIGINS: Annotated[list[str], NoDecode] = Field(
        default=[],
        description="Origins whose scripts may call /api with a token in a browser, comma-separated "
        "(https://app.example); empty: none",
    )

    @field_validator("MAILHUB_CORS_ORIGINS", mode="before")
    @classmethod
    def _split_origins(cls, value: object) -> object:
        return (
            [part.strip().lower() for part in value.split(",") if part.strip()]
            if isinstance(value, str)
            else value
        )

    @field_validator("MAILHUB_CORS_ORIGINS")
    @classmethod
    def _are_origins(cls, origins: list[str]) -> list[str]:
        for origin in origins:
            parts = parse_url(origin)
            whole = f"{parts.scheme}://{parts.netloc}"
            if parts.scheme not in ("http", "https") or not parts.hostname or whole != origin:
                raise ValueError("takes origins such as https://app.example, without a path")
        return origins
