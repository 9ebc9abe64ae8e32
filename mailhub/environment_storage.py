"""The variables about the place of the bytes of messages."""

from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator
from pydantic_settings import BaseSettings

from mailhub.endpoints import check_base_url

BUCKET = "messages"  # its name among Django's storages


class StorageEnvironment(BaseSettings):
    """Fields of `mailhub.environment.Environment` that concern storage; each description is a line
    in `.env.example`.
    """

    MAILHUB_CONTENT_STORE: Literal["database", "s3"] = Field(
        "database",
        description="Where the bytes of new messages go: database, or s3 (needs MAILHUB_S3_BUCKET)",
    )
    MAILHUB_S3_BUCKET: str = Field(
        "", description="The bucket, needed as long as it holds messages; empty: none"
    )
    MAILHUB_S3_ENDPOINT_URL: str = Field(
        "", description="Address of the server (https), such as that of MinIO; empty: AWS"
    )
    MAILHUB_S3_REGION: str = Field("", description="Its region; empty: as AWS_DEFAULT_REGION says")
    MAILHUB_S3_ACCESS_KEY_ID: str = Field(
        "", description="Key for the bucket; empty: what AWS's client finds, such as a role"
    )
    MAILHUB_S3_SECRET_ACCESS_KEY: str = Field("", description="The secret that goes with it")
    MAILHUB_S3_TIMEOUT_SECONDS: int = Field(
        10, ge=1, le=60, description="Bounds each wait for the bucket, and the reading of an object"
    )

    @field_validator("MAILHUB_S3_ENDPOINT_URL")
    @classmethod
    def _is_safe_endpoint(cls, url: str) -> str:
        return check_base_url(url) if url else ""

    @model_validator(mode="after")
    def _store_has_its_bucket(self) -> Self:
        if self.MAILHUB_CONTENT_STORE == "s3" and not self.MAILHUB_S3_BUCKET:
            raise ValueError("MAILHUB_CONTENT_STORE=s3 needs MAILHUB_S3_BUCKET")
        return self


def list_storages(env: StorageEnvironment) -> dict[str, dict[str, Any]]:
    """Return Django's STORAGES. A bucket loads its library when it is used first."""
    storages: dict[str, dict[str, Any]] = {
        "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
        "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
    }
    if env.MAILHUB_S3_BUCKET:
        storages[BUCKET] = {
            "BACKEND": "accounts.infra.bucket.Bucket",
            "OPTIONS": {
                "bucket_name": env.MAILHUB_S3_BUCKET,
                "endpoint_url": env.MAILHUB_S3_ENDPOINT_URL or None,
                "region_name": env.MAILHUB_S3_REGION or None,
                "access_key": env.MAILHUB_S3_ACCESS_KEY_ID or None,
                "secret_key": env.MAILHUB_S3_SECRET_ACCESS_KEY or None,
                "seconds": env.MAILHUB_S3_TIMEOUT_SECONDS,
            },
        }
    return storages
