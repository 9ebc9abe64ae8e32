"""Drafts at Gmail, and the conversation that a mail belongs to."""

import io
from email.message import Message as Block
from typing import Any

from accounts.connect.google import COMPOSE_SCOPE
from accounts.infra.texts import translatable
from tools.mail.message import lenient
from tools.providers.base import NOT_A_DRAFT, StoredDraft
from tools.providers.errors import NotFound, Refused
from tools.providers.gmail import payload, queries
from tools.providers.gmail.mailbox import DRAFT_GONE, DRAFT_ID, ID, GmailMailbox

# From this size on the bytes travel as they are: in JSON they would be a third larger, and Gmail
# accepts less as JSON.
MEDIA_BYTES = 1024 * 1024
# Limit of an upload: https://gmail.googleapis.com/$discovery/rest?version=v1, `maxSize` of
# drafts.create.
LARGEST = 35 * 1024 * 1024
DRAFTS_LOOKED_AT = 500


class GmailDrafts:
    """The drafts of one mailbox.

    An id holds the draft and its message: a changed draft has another message.
    """

    def __init__(self, mailbox: GmailMailbox) -> None:
        self._mailbox = mailbox
        self._client = mailbox.client

    def save_draft(self, source: bytes, *, replaces: str | None = None) -> StoredDraft:
        old = self._find_draft(replaces) if replaces is not None else None
        headers = lenient.headers(source)
        thread = str(self.find_parent(headers).get("threadId", ""))
        if not thread and old is not None and headers["In-Reply-To"]:
            # Gmail takes a thread only for a mail that answers one in it:
            # https://developers.google.com/workspace/gmail/api/guides/threads
            thread = str(old["message"].get("threadId", ""))
        stored = self.put(source, thread=thread, draft_id=old["id"] if old else None)
        return StoredDraft(
            id=f"{stored['id']}.{stored['message']['id']}", number=None, source=source
        )

    def read_draft(self, draft_id: str) -> StoredDraft:
        named = self._find_draft(draft_id)
        stored = self._mailbox.get_draft(named["id"], fmt="raw")
        if stored["message"]["id"] != named["message"]["id"]:
            raise NotFound(DRAFT_GONE)
        source = payload.decode_base64(stored["message"].get("raw", ""))
        return StoredDraft(
            id=f"{stored['id']}.{stored['message']['id']}", number=None, source=source
        )

    def delete_draft(self, draft_id: str) -> None:
        named = self._find_draft(draft_id)
        self._client.write(
            "drafts.delete",
            lambda users: users.drafts().delete(userId="me", id=named["id"]),
            scope=COMPOSE_SCOPE,
        )

    def put(self, source: bytes, *, thread: str, draft_id: str | None = None) -> dict[str, Any]:
        """Create or change a draft; put it into its conversation as long as that exists."""
        try:
            return self._write(source, thread, draft_id)
        except NotFound:
            if not thread:
                raise
            return self._write(source, "", draft_id)

    def find_parent(self, block: Block, *, patient: bool = True) -> dict[str, Any]:
        """Return the id and the conversation of the message that this one answers, or an empty
        dict.
        """
        parents = lenient.REFERENCE.findall(str(block["In-Reply-To"] or ""))
        if not parents:
            return {}
        query = queries.message_id_term(parents[0])
        answer = self._client.read(
            "messages.list",
            lambda users: users.messages().list(userId="me", q=query, maxResults=1),
            patient=patient,
        )
        return dict(next(iter(answer.get("messages", ())), {}))

    def _find_draft(self, draft_id: str) -> dict[str, Any]:
        """Return the draft if it is still the one that was seen."""
        named = DRAFT_ID.fullmatch(draft_id)
        if named:
            draft = self._mailbox.get_draft(named[1], fmt="minimal")
            if draft["message"]["id"] != named[2]:
                raise NotFound(DRAFT_GONE)
            return draft
        if not ID.fullmatch(draft_id):
            raise NotFound(NOT_A_DRAFT)
        message = self._mailbox.get_message(draft_id, fmt="minimal")
        if "DRAFT" not in message.get("labelIds", ()):
            raise Refused("not_a_draft", NOT_A_DRAFT)
        # A search names a draft only by its message.
        answer = self._client.read(
            "drafts.list",
            lambda users: users.drafts().list(userId="me", maxResults=DRAFTS_LOOKED_AT),
        )
        for draft in answer.get("drafts", ()):
            if draft["message"]["id"] == draft_id:
                return dict(draft)
        raise NotFound(DRAFT_GONE)

    def _write(self, source: bytes, thread: str, draft_id: str | None) -> dict[str, Any]:
        refuse_too_large(len(source))
        message: dict[str, Any] = {"threadId": thread} if thread else {}
        given: dict[str, Any] = {"userId": "me"} | ({"id": draft_id} if draft_id else {})
        if len(source) < MEDIA_BYTES:
            given["body"] = {"message": message | {"raw": payload.encode_base64(source)}}
        else:
            given |= {"body": {"message": message}, "media_body": _media(source)}

        def build(users: Any) -> Any:
            return users.drafts().update(**given) if draft_id else users.drafts().create(**given)

        name = "drafts.update" if draft_id else "drafts.create"
        return dict(self._client.write(name, build, scope=COMPOSE_SCOPE))


def refuse_too_large(size: int) -> None:
    if size > LARGEST:
        raise Refused(
            "too_large",
            translatable(
                "Gmail takes mails of at most %(largest)s bytes; this one has %(size)s.",
                largest=f"{LARGEST:,}",
                size=f"{size:,}",
            ),
        )


def _media(source: bytes) -> Any:
    # Imported here because it is loaded together with the client.
    from googleapiclient.http import MediaIoBaseUpload

    return MediaIoBaseUpload(io.BytesIO(source), mimetype="message/rfc822", resumable=False)
