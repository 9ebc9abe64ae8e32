"""The variables about people and their programs: limits for mailed invitations and codes, sessions,
single sign-on, mailhub's own mail, and scripts in browsers.
"""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, field_validator
from pydantic_settings import BaseSettings

from accounts.infra.foreign_text import origin_of, parse_url
from mailhub.environment.endpoints import check_mail_server
from mailhub.environment.kinds import ListedLower


class PeopleEnvironment(BaseSettings):
    """Fields of `Environment` that concern people; each description is a line in `.env.example`."""

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
    MICROSOFT_ALLOWED_TENANTS: ListedLower[str] = Field(
        default=[],
        description="Tenant ids from which mailboxes may be connected in the web, comma-separated; needed with "
        "MICROSOFT_TENANT=common or organizations",
    )

    MAILHUB_OAUTH_REGISTRATION: Literal["on", "listed", "off"] = Field(
        "on",
        description="Which programs may connect by OAuth: on (any), listed (those of MAILHUB_OAUTH_HOSTS) or off",
    )
    MAILHUB_OAUTH_HOSTS: ListedLower[str] = Field(
        default=[],
        description="With listed: hosts of programs, comma-separated; localhost stands for programs on a "
        "person's own computer",
    )

    MAILHUB_SESSION_IDLE_HOURS: int = Field(
        12, ge=1, le=24 * 30, description="Signs out a browser that is not used"
    )
    MAILHUB_SESSION_DAYS: int = Field(
        14, ge=1, le=90, description="A sign-in ends after so many days, used or not"
    )
    OIDC_ISSUER: str = Field(
        "", description="Single sign-on: the issuer of an OpenID provider; empty: none"
    )
    OIDC_CLIENT_ID: str = Field("", description="Under which id mailhub is known there")
    OIDC_CLIENT_SECRET: str = Field("", description="The secret that goes with it")
    OIDC_NAME: str = Field("single sign-on", description="What the button says: Sign in with …")
    MAILHUB_NOTIFICATIONS_PER_HOUR: int = Field(
        30, ge=1, description="How many notifications one channel of a person gets an hour at most"
    )
    MAILHUB_NOTIFICATION_WAIT_SECONDS: int = Field(
        20,
        ge=0,
        le=3600,
        description="How long a notification waits for others, so that proposals that arrive together are one message",
    )
    EMAIL_URL: Annotated[str, AfterValidator(check_mail_server)] = Field(
        "",
        description="Server for mail that mailhub itself sends (invitations, sign-in codes): smtp://, submission:// "
        "(STARTTLS) or smtps://, with user:password@ before the host; empty: it sends none",
    )
    DEFAULT_FROM_EMAIL: str = Field(
        "", description="Who that mail is from; empty: mailhub@ and the public host"
    )
    MAILHUB_CORS_ORIGINS: ListedLower[str] = Field(
        default=[],
        description="Origins whose scripts may call /api with a token in a browser, comma-separated "
        "(https://app.example); empty: none",
    )

    @field_validator("MAILHUB_CORS_ORIGINS")
    @classmethod
    def _are_origins(cls, origins: list[str]) -> list[str]:
        for origin in origins:
            parts = parse_url(origin)
            is_whole = parts.hostname and origin_of(origin) == origin
            if parts.scheme not in ("http", "https") or not is_whole:
                raise ValueError("takes origins such as https://app.example, without a path")
        return origins
