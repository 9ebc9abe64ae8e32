"""A bucket of S3 as one of Django's storages: one request for each call, bounded, never repeated."""

from __future__ import annotations

import os
import time
from typing import Any

from botocore.config import Config
from botocore.exceptions import ClientError
from django.core.files.base import ContentFile, File
from storages.backends.s3 import S3Storage

READ_BYTES = 64 * 1024
CONNECTIONS = 50  # that a process keeps; one more is opened and closed


class Bucket(S3Storage):
    """The storage of django-storages, without its further requests for each file.

    The library asks three times to read a file, has threads of its own, and repeats what failed.
    `seconds` bounds each wait for the server, and a whole body that is read.
    """

    bucket_name: str
    region_name: str | None
    endpoint_url: str | None
    client_config: Any

    def __init__(self, *, seconds: float, **options: Any) -> None:
        self.seconds = seconds
        # Checksums of newer AWS clients are refused by other servers. The content is encrypted
        # with authentication, so nothing is lost.
        config = Config(
            connect_timeout=seconds,  # also for the upload of a body
            read_timeout=seconds,
            retries={"total_max_attempts": 1, "mode": "standard"},
            max_pool_connections=CONNECTIONS,
            signature_version="s3v4",
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        )
        super().__init__(client_config=config, **options)
        self._made_by: tuple[int, Any] = (0, None)

    @property
    def client(self) -> Any:
        """Return the client of this process. All threads share it; a fork makes another one."""
        pid, client = self._made_by
        if pid != os.getpid():
            client = self._create_session().client(
                "s3",
                region_name=self.region_name,
                endpoint_url=self.endpoint_url,
                config=self.client_config,
            )
            self._made_by = (os.getpid(), client)
        return client

    def _open(self, name: str, mode: str = "rb") -> ContentFile[bytes]:
        """Read a whole object; raises FileNotFoundError, OSError or what botocore raises."""
        client = self.client
        ends = time.monotonic() + self.seconds
        try:
            answer = client.get_object(Bucket=self.bucket_name, Key=name)
        except ClientError as error:
            if error.response["Error"]["Code"] == "NoSuchKey":
                raise FileNotFoundError(name) from None
            raise
        content = bytearray()
        # The block gets urllib3's answer. `read` would wait until all bytes are there, however
        # slowly they arrive.
        with answer["Body"] as body:
            while piece := body.read1(READ_BYTES):
                content += piece
                if time.monotonic() > ends:
                    raise TimeoutError("the object arrives too slowly")
        if len(content) != answer["ContentLength"]:
            raise ConnectionError("the connection ended before the object")
        return ContentFile(bytes(content))

    def _save(self, name: str, content: File[bytes]) -> str:
        self.client.put_object(Bucket=self.bucket_name, Key=name, Body=content.read())
        return name

    def list_after(self, name: str) -> list[str]:
        """Return the next names in the order of the bucket, at most 1,000."""
        answer = self.client.list_objects_v2(Bucket=self.bucket_name, StartAfter=name)
        return [each["Key"] for each in answer.get("Contents", ())]

    def delete(self, name: str) -> None:
        """Delete an object; one that does not exist is no error."""
        self.client.delete_object(Bucket=self.bucket_name, Key=name)
