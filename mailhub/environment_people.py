"""The variables about people: how many invitations and codes are mailed, and which tenants may sign
in.
"""

from typing import Annotated, Literal

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, NoDecode


class PeopleEnvironment(BaseSettings):
    """Fields of `mailhub.environment.Environment` that concern people; each description is a line
    in `.env.example`.
    """

    MAILHUB_SECOND_FACTOR: Literal["auto", "required", "optional"] = Field(
        "auto",
        description="Whether managers and staff must have a second factor: auto (as soon as there are two people), "
        "required or optional",
    )
    MAILHUB_INVITATIONS_PER_HOUR: int = Field(
        20, ge=1, description="How many invitations one person may make an hour"
    )
    MAILHUB_MAILBOX_INVITATIONS_PER_HOUR: int = Field(
        40,
        ge=1,
        description="How many invitations to one mailbox may be made an hour, by all its managers together",
    )
    MAILHUB_ADDRESS_MAILS_PER_HOUR: int = Field(
        5,
        ge=1,
        description="How many invitations, and how many codes that prove an address, one address gets an hour",
    )
    MICROSOFT_ALLOWED_TENANTS: Annotated[list[str], NoDecode] = Field(
        default=[],
        description="Tenant ids from which mailboxes may be connected in the web, comma-separated; needed with "
        "MICROSOFT_TENANT=common or organizations",
    )

    @field_validator("MICROSOFT_ALLOWED_TENANTS", mode="before")
    @classmethod
    def _split_tenants(cls, value: object) -> object:
        return (
            [part.strip().lower() for part in value.split(",") if part.strip()]
            if isinstance(value, str)
            else value
        )
