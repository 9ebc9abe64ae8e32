"""The attachments of a message in Graph: listed, read, and made equal to the approved ones."""

import base64
import binascii
from collections.abc import Sequence
from hashlib import sha256
from typing import Any
from urllib.parse import quote

from accounts.infra.texts import translatable
from tools.mail.message.compose import Attachment
from tools.providers.errors import NotFound
from tools.providers.graph.client import WRITE, GraphClient
from tools.providers.graph.outgoing import INLINE_LIMIT, file_json

FILE_FIELDS = "id,name,contentType,size,isInline,microsoft.graph.fileAttachment/contentId"
PIECE = 10 * 320 * 1024  # of an upload: a multiple of 320 KiB, under 4 MB


class GraphAttachments:
    """The attachments of one mailbox. `message` is the path of a message."""

    def __init__(self, client: GraphClient) -> None:
        self._client = client

    def list_rows(self, message: str) -> list[dict[str, Any]]:
        return self._client.rows(f"{message}/attachments", {"$select": FILE_FIELDS})

    def read(self, message: str, row: dict[str, Any], *, is_mail: bool = False) -> bytes:
        """Return the bytes of an attachment. An attached mail has no bytes of its own and comes as
        MIME.
        """
        path = _path(message, row)
        if is_mail:
            return self._client.get(f"{path}/$value", raw=True).content
        answer = self._client.get(path)
        try:
            return base64.b64decode(answer.body.get("contentBytes") or "", validate=True)
        except (binascii.Error, ValueError, AttributeError):
            raise NotFound(
                translatable("Microsoft 365 gave no content for this attachment.")
            ) from None

    def list_digests(self, message: str) -> list[tuple[str, str]]:
        """Return (name, SHA-256) of each attachment."""
        return [
            (str(row.get("name")), sha256(self.read(message, row)).hexdigest())
            for row in self.list_rows(message)
        ]

    def fill(self, draft: str, files: Sequence[Attachment]) -> None:
        """Make the attachments equal to the approved ones: delete those that Graph added, add the
        missing.
        """
        missing = list(files)
        for row in self.list_rows(draft):
            file = next((each for each in missing if self._is_same(each, draft, row)), None)
            if file is None:
                self._client.call("DELETE", _path(draft, row), scope=WRITE)
            else:
                missing.remove(file)
        for file in missing:
            if len(file.content) < INLINE_LIMIT:
                self._client.call("POST", f"{draft}/attachments", scope=WRITE, json=file_json(file))
            else:
                self._upload(draft, file)

    def _is_same(self, file: Attachment, draft: str, row: dict[str, Any]) -> bool:
        if row.get("name") != file.name or (row.get("isInline") or False) is not bool(
            file.content_id
        ):
            return False
        if str(row.get("@odata.type") or "").endswith("itemAttachment"):
            return False  # the approved bytes go as a file
        return self.read(draft, row) == file.content

    def _upload(self, draft: str, file: Attachment) -> None:
        total = len(file.content)
        item = {
            "attachmentType": "file",
            "name": file.name,
            "size": total,
            "contentType": file.type,
        }
        if file.content_id:
            item |= {"isInline": True, "contentId": file.content_id}
        answer = self._client.call(
            "POST",
            f"{draft}/attachments/createUploadSession",
            scope=WRITE,
            json={"AttachmentItem": item},
        )
        for first in range(0, total, PIECE):
            self._client.upload(
                str(answer.body["uploadUrl"]),
                file.content[first : first + PIECE],
                first=first,
                total=total,
            )


def _path(message: str, row: dict[str, Any]) -> str:
    return f"{message}/attachments/{quote(str(row['id']), safe='')}"
