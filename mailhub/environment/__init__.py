"""The variables of the environment, checked once at start.

Order of precedence: the environment, `NAME_FILE` (that file contains the value),
`$MAILHUB_HOME/mailhub.env` (written by `manage.py run`, so that every command on the same home sees
the same keys), the default.
"""

import base64
import os
import secrets
import sys
from email.utils import parseaddr
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import dj_database_url
from dotenv import dotenv_values
from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from accounts.infra.foreign_text import parse_url
from mailhub.environment.agent import AgentEnvironment
from mailhub.environment.endpoints import (
    check_base_url,
    check_loopback_server,
    is_loopback,
)
from mailhub.environment.endpoints import mail_settings as mail_settings
from mailhub.environment.home import KEY_BYTES, close_to_others, env_file, lock_home
from mailhub.environment.kinds import Listed, begins_with
from mailhub.environment.people import PeopleEnvironment
from mailhub.sandbox.state import SANDBOX

REDIS_SCHEMES = ("redis://", "rediss://")
AMQP_SCHEMES = ("amqp://", "amqps://")
_NO_BUCKET = (
    "messages are in the database. In the version that you had, set MAILHUB_CONTENT_STORE=database, run"
    " `manage.py move_content`, and leave a worker running until the bucket is empty. Then remove"
    " MAILHUB_CONTENT_STORE and MAILHUB_S3_BUCKET"
)
_NO_ARCHIVE = (
    "all audit events stay in the database. Remove MAILHUB_AUDIT_RETENTION_DAYS and MAILHUB_AUDIT_ARCHIVE, keep the"
    " files of the archive, and run `manage.py migrate`, which says if events are only in these files"
)
# Settings of earlier versions: the value that asked for nothing, and what to do about any other.
GONE = {
    "MAILHUB_CONTENT_STORE": ("database", _NO_BUCKET),
    "MAILHUB_S3_BUCKET": ("", _NO_BUCKET),
    "MAILHUB_AUDIT_RETENTION_DAYS": ("0", _NO_ARCHIVE),
    "MAILHUB_AUDIT_ARCHIVE": ("", _NO_ARCHIVE),
}


class Environment(AgentEnvironment, PeopleEnvironment):
    """One field for each variable; the field's description is the line in `.env.example`."""

    model_config = SettingsConfigDict(case_sensitive=True, extra="ignore", env_ignore_empty=True)

    MAILHUB_HOME: Path = Field(Path("var"), description="Database, keys and sandbox mail live here")
    SECRET_KEY: str = Field(
        min_length=32, description="Signs sessions and audit entries; `make run` makes one"
    )
    MAILHUB_ENCRYPTION_KEYS: Listed[str] = Field(
        description="Base64 keys of 32 bytes, comma-separated; the first encrypts, all decrypt"
    )
    MAILHUB_SEND_JOURNAL: str = Field(
        "",
        description="The file of what was handed over, with the audit's anchors beside it; empty: send-journal.jsonl in"
        " MAILHUB_HOME",
    )
    DATABASE_URL: Annotated[str, begins_with("sqlite:///", "postgres://", "postgresql://")] = Field(
        "", description="sqlite:///… or postgres://…; empty: SQLite in MAILHUB_HOME"
    )
    MAILHUB_QUEUE: Literal["database", "rq", "celery"] = Field(
        "database",
        description="What notifies a worker: database, rq (needs REDIS_URL) or celery (needs a broker)",
    )
    REDIS_URL: Annotated[str, begins_with(*REDIS_SCHEMES)] = Field(
        "", description="redis://… or rediss://…; for rq, and for celery without a broker"
    )
    CELERY_BROKER_URL: Annotated[str, begins_with(*REDIS_SCHEMES, *AMQP_SCHEMES)] = Field(
        "", description="redis://… or amqp://…; empty: REDIS_URL"
    )
    ALLOWED_HOSTS: Listed[str] = Field(
        default=[],
        description="Host names this server answers to, comma-separated; loopback and the public host always",
    )
    HOST: str = Field("127.0.0.1", description="Address that `manage.py run` listens on")
    PORT: int = Field(8000, ge=1, le=65535, description="Port that `manage.py run` listens on")
    MAILHUB_PUBLIC_URL: str = Field(
        "", description="Address people and links use; empty: follows HOST and PORT"
    )
    LOG_FORMAT: Literal["logfmt", "json"] = Field(
        "logfmt", description="Log lines as logfmt or json; the containers write json"
    )
    MAILHUB_UNDO_SECONDS: int = Field(
        10, ge=0, le=3600, description="How long an approval can be undone"
    )
    MAILHUB_ACTION_TTL_HOURS: int = Field(
        24, ge=1, le=24 * 30, description="How long a proposal waits for a person"
    )
    MAILHUB_LEASE_SECONDS: int = Field(
        30, ge=3, le=3600, description="A worker's claim, renewed while it works"
    )
    MAILHUB_WIRE_TIMEOUT_SECONDS: int = Field(
        600,
        ge=1,
        le=3600,
        description="Bounds a send up to its final dot (then it is tried again), and its answer (then unknown)",
    )
    MAILHUB_READY_WAIT_SECONDS: int = Field(
        300,
        ge=10,
        le=86_400,
        description="How long mail that may leave can wait in its mailbox; then /statusz says 503",
    )
    MAILHUB_RETENTION_DAYS: int = Field(
        90, ge=1, description="How long the content of a finished action is kept"
    )
    MAILHUB_STATIC_ROOT: str = Field(
        "",
        description="The folder that collectstatic fills with compressed files and hashed names; empty: plain files",
    )
    MAILHUB_AUDIT_ANCHORS_COPY: str = Field(
        "",
        description="A folder on another disk or machine that gets a copy of the audit's anchors; empty: none",
    )
    DUPLICATE_WINDOW_SECONDS: int = Field(
        120, ge=0, description="Same recipients, subject, text: warn within"
    )
    MAILHUB_PROPOSALS_PER_MINUTE: int = Field(
        600, ge=120, description="How often a token may propose; then 429"
    )
    MAILHUB_REQUESTS_PER_MINUTE: int = Field(
        12_000,
        ge=60,
        description="Requests of one token, of any kind; all tokens of a person: three times as many",
    )
    MAILHUB_PENDING_PROPOSALS: int = Field(
        5_000,
        ge=10,
        description="Proposals of one token that wait for a person, in one mailbox; then 429",
    )
    MAILHUB_UPLOADS_PER_DAY: int = Field(
        1_000, ge=1, description="Files that one token may upload within 24 hours"
    )
    MAILHUB_STORED_MEGABYTES_PER_DAY: int = Field(
        1_000,
        ge=40,
        description="Megabytes of uploads and proposals that one token may store within 24 hours",
    )
    MAILHUB_METRICS_TOKEN: str = Field(
        "", description="Bearer token that /metrics asks for; empty: no /metrics"
    )
    MICROSOFT_CLIENT_ID: str = Field(
        "", description="Application (client) id of the app registration; empty: none"
    )
    MICROSOFT_CLIENT_SECRET: str = Field(
        "", description="Its secret; not needed if you only use the device code"
    )
    MICROSOFT_TENANT: str = Field(
        "common", description="Tenant that may sign in: common, organizations, or an id"
    )
    MICROSOFT_AUTHORITY: str = Field(
        "",
        description="Sign-in service without tenant (https); set, it switches instance discovery off",
    )
    MICROSOFT_PERMISSIONS: Listed[Literal["Mail.Read", "Mail.ReadWrite", "Mail.Send"]] = Field(
        default=[], description="What to ask for, comma-separated; empty: Mail.ReadWrite,Mail.Send"
    )
    GRAPH_BASE_URL: str = Field(
        "https://graph.microsoft.com/v1.0", description="Microsoft Graph; for national clouds"
    )
    MAILHUB_LOOPBACK_SERVERS: Listed[str] = Field(
        default=[],
        description="Mail servers on this machine that mailboxes may use: 127.0.0.1:PORT, or sandbox; comma-separated",
    )

    GOOGLE_CLIENT_ID: str = Field(
        "", description="OAuth client of this installation at Google, for Gmail mailboxes"
    )
    GOOGLE_CLIENT_SECRET: str = Field("", description="Its secret")
    GOOGLE_AUTH_URI: str = Field(
        "https://accounts.google.com/o/oauth2/v2/auth",
        description="Where people allow Google access",
    )
    GOOGLE_TOKEN_URI: str = Field(
        "https://oauth2.googleapis.com/token", description="Where Google gives tokens"
    )
    GMAIL_BASE_URL: str = Field(
        "https://gmail.googleapis.com", description="Where the Gmail API is"
    )
    GMAIL_CREDENTIALS_PATH: str = Field(
        "",
        description="File of an OAuth client from the Google console, where GOOGLE_CLIENT_ID is not set",
    )
    GMAIL_TOKEN_PATH: str = Field(
        "", description="Default of --token-file of `connect_mailbox gmail`, if it is there"
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (init_settings, env_settings, _NameFile(settings_cls), dotenv_settings)

    @field_validator("MAILHUB_ENCRYPTION_KEYS")
    @classmethod
    def _keys_are_keys(cls, keys: list[str]) -> list[str]:
        try:
            decoded = [base64.b64decode(key, validate=True) for key in keys]
        except ValueError:
            raise ValueError("is not base64") from None
        if not decoded or any(len(key) != KEY_BYTES for key in decoded):
            raise ValueError(f"needs at least one key, each of {KEY_BYTES} bytes in base64")
        return keys

    @field_validator("MAILHUB_LOOPBACK_SERVERS")
    @classmethod
    def _are_on_loopback(cls, servers: list[str]) -> list[str]:
        return [each if each == SANDBOX else check_loopback_server(each) for each in servers]

    @field_validator("DATABASE_URL")
    @classmethod
    def _is_database(cls, url: str) -> str:
        try:
            dj_database_url.parse(url or "sqlite://")
        except ValueError:  # its text may quote the password
            raise ValueError(
                "is not an address; write special characters of a password as %.."
            ) from None
        return url

    # A self-hosted model server is often in the same private network and without a certificate.
    @field_validator("MAILHUB_PUBLIC_URL", "OPENAI_BASE_URL")
    @classmethod
    def _is_http(cls, url: str) -> str:
        if url and not url.startswith(("http://", "https://")):
            raise ValueError("must start with http:// or https://")
        return url.rstrip("/")

    @field_validator("MICROSOFT_AUTHORITY")
    @classmethod
    def _is_https(cls, url: str) -> str:
        if url and parse_url(url).scheme != "https":
            raise ValueError("must start with https://")
        return check_base_url(url) if url else ""

    @field_validator(
        *("OIDC_ISSUER", "GRAPH_BASE_URL", "GOOGLE_AUTH_URI", "GOOGLE_TOKEN_URI", "GMAIL_BASE_URL"),
        "AZURE_OPENAI_ENDPOINT",
    )
    @classmethod
    def _is_safe(cls, url: str) -> str:
        return check_base_url(url) if url else ""

    @field_validator("GRAPH_BASE_URL")
    @classmethod
    def _has_version(cls, url: str) -> str:
        """Return the URL with its version, which `https://graph.microsoft.us` may leave out."""
        return url if url.endswith(("/v1.0", "/beta")) else f"{url}/v1.0"

    @field_validator("DEFAULT_FROM_EMAIL")
    @classmethod
    def _is_sender(cls, sender: str) -> str:
        if sender and ("@" not in parseaddr(sender)[1] or not sender.isprintable()):
            raise ValueError("is not an e-mail address")
        return sender

    @model_validator(mode="after")
    def _queue_has_its_server(self) -> Self:
        self.CELERY_BROKER_URL = self.CELERY_BROKER_URL or self.REDIS_URL
        if self.MAILHUB_QUEUE == "rq" and not self.REDIS_URL:
            raise ValueError("MAILHUB_QUEUE=rq needs REDIS_URL")
        if self.MAILHUB_QUEUE == "celery" and not self.CELERY_BROKER_URL:
            raise ValueError("MAILHUB_QUEUE=celery needs CELERY_BROKER_URL or REDIS_URL")
        return self

    @model_validator(mode="after")
    def _single_sign_on_is_whole(self) -> Self:
        if self.OIDC_ISSUER and not (self.OIDC_CLIENT_ID and self.OIDC_CLIENT_SECRET):
            raise ValueError("OIDC_ISSUER needs OIDC_CLIENT_ID and OIDC_CLIENT_SECRET")
        return self

    @model_validator(mode="after")
    def _fill_in(self) -> Self:
        self.MAILHUB_HOME = self.MAILHUB_HOME.resolve()
        self.DATABASE_URL = self.DATABASE_URL or f"sqlite:///{self.MAILHUB_HOME}/mailhub.sqlite3"
        if not self.MAILHUB_PUBLIC_URL:
            host = f"[{self.HOST}]" if ":" in self.HOST else self.HOST
            self.MAILHUB_PUBLIC_URL = f"http://{host}:{self.PORT}"
        host = parse_url(self.MAILHUB_PUBLIC_URL).hostname or ""
        self.DEFAULT_FROM_EMAIL = (
            self.DEFAULT_FROM_EMAIL or f"mailhub@{'localhost' if is_loopback(host) else host}"
        )
        return self


class _NameFile(PydanticBaseSettingsSource):
    """The source for `NAME_FILE=/run/secrets/name`: containers pass secrets that way."""

    def get_field_value(self, field: Any, field_name: str) -> tuple[Any, str, bool]:
        path = os.environ.get(f"{field_name}_FILE")
        return (Path(path).read_text().strip() if path else None), field_name, False

    def __call__(self) -> dict[str, Any]:
        values = {
            name: self.get_field_value(None, name)[0] for name in self.settings_cls.model_fields
        }
        return {name: value for name, value in values.items() if value is not None}


def load() -> Environment:
    """Read and check all variables; a wrong or missing value ends the process with one line."""
    home = Path(os.environ.get("MAILHUB_HOME") or "var")
    close_to_others(home)
    _refuse_gone(home)
    try:
        return Environment(_env_file=env_file(home))
    except ValidationError as error:
        wrong = "; ".join(
            ": ".join(
                filter(
                    None, [".".join(map(str, item["loc"])), _sentence(item["type"], item["msg"])]
                )
            )
            for item in error.errors(include_input=False, include_url=False)
        )
        sys.exit(f"mailhub cannot start: {wrong}")
    except OSError as error:
        sys.exit(f"mailhub cannot start: {error.filename}: {error.strerror}")


def _refuse_gone(home: Path) -> None:
    """End the process if a setting asks for a place of earlier versions, which may hold something."""
    given = {**dotenv_values(env_file(home)), **os.environ}
    for name, (harmless, says) in GONE.items():
        if given.get(name) not in (None, "", harmless):
            sys.exit(f"mailhub cannot start: {name}: is gone, and {says}")


def _sentence(kind: str, message: str) -> str:
    if kind == "missing":
        return "is not set (`make run` makes one; see .env.example)"
    return message.removeprefix("Value error, ")


def prepare_home() -> None:
    """Write the values that every command on this home must share: the keys, made if they are
    missing, and the variables of this process. Existing keys stay the same at every start.
    """
    home = Path(os.environ.get("MAILHUB_HOME") or "var").resolve()
    os.environ["MAILHUB_HOME"] = str(home)  # the children start in another folder
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock_home(home)
    path = env_file(home)
    before = dotenv_values(path)
    host, port = os.environ.get("HOST") or "127.0.0.1", os.environ.get("PORT") or "8000"
    # A passkey needs a name, and a browser makes none for a number.
    named = host in ("0.0.0.0", "::") or is_loopback(host)
    shown = "localhost" if named else f"[{host}]" if ":" in host else host
    values = {
        "SECRET_KEY": before.get("SECRET_KEY") or secrets.token_urlsafe(48),
        "MAILHUB_ENCRYPTION_KEYS": before.get("MAILHUB_ENCRYPTION_KEYS")
        or base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode(),
        "MAILHUB_PUBLIC_URL": f"http://{shown}:{port}",
        "MAILHUB_LOOPBACK_SERVERS": SANDBOX if is_loopback(host) else "",
    }
    values |= {name: os.environ[name] for name in Environment.model_fields if os.environ.get(name)}
    for name in ("SECRET_KEY", "MAILHUB_ENCRYPTION_KEYS"):
        if f"{name}_FILE" in os.environ:
            del values[name]
    text = "".join(
        f"{name}='{value}'\n" for name, value in values.items() if name != "MAILHUB_HOME"
    )
    written = path.with_suffix(".new")
    written.touch(mode=0o600)
    written.write_text(f"# Written by `manage.py run`; read by every command on this home.\n{text}")
    written.replace(path)
