"""Whether a mail has left Gmail: the search in Sent, and the state of the prepared draft.

The draft proves that nothing went out: as long as it is there unchanged, it was not sent.
"""

from typing import Any

from accounts.connect.google import COMPOSE_SCOPE
from tools.mail.message import lenient
from tools.providers.base import Envelope, StoredDraft
from tools.providers.errors import NotFound, ProviderError, Refused
from tools.providers.gmail import payload, queries
from tools.providers.gmail.content import MARK, mark_of, values_by_name, write_source
from tools.providers.gmail.mailbox import DRAFT_ID, GmailMailbox
from tools.providers.notes import DraftNotes

LOOKED_AT = 20  # of the newest in Sent, besides the search result, because the search index may lag
ID_HEADERS = ("Message-ID", "X-Google-Original-Message-ID", *lenient.ORIGINAL_ID_HEADERS)


class GmailEvidence:
    """The evidence in one mailbox. The mark or a Message-ID in a header identifies a mail."""

    can_find_sent = True

    def __init__(self, mailbox: GmailMailbox) -> None:
        self._mailbox = mailbox
        self._client = mailbox.client

    def find_sent(self, message_id: str) -> str | None:
        """Search by Message-ID, then look in the newest of Sent for our mark or a header with the
        id.
        """
        found = self._find_in_sent(message_id)
        return found[1] if found else None

    def differs_in_sent(self, message_id: str, envelope: Envelope) -> tuple[str, ...]:
        found = self._find_in_sent(message_id)
        if found is None:
            raise NotFound()
        raw = self._mailbox.get_message(found[0], fmt="raw", patient=False).get("raw", "")
        is_, should_be = (
            values_by_name(source)
            for source in (payload.decode_base64(raw), write_source(envelope, message_id))
        )
        return tuple(name for name in should_be if is_[name] != should_be[name])

    def is_unsent(self, prepared: DraftNotes) -> bool:
        if not prepared.draft:
            return False
        try:
            draft = self._mailbox.get_draft(prepared.draft, fmt="minimal", patient=False)
        except Refused:
            return False
        return bool(draft["message"]["id"] == prepared.message)

    def discard(self, prepared: DraftNotes) -> bool:
        """Remove the draft; one that the mailbox owner has changed stays, because it is theirs."""
        found = prepared if prepared.draft else self.find_lost_draft(prepared.marker)
        if found is None:
            return not prepared.marker or self.find_sent(prepared.marker) is None
        if self.destroy(found):
            return True
        try:
            self._mailbox.get_draft(found.draft, fmt="minimal", patient=False)
        except NotFound:
            return False
        return True

    def destroy(self, prepared: DraftNotes) -> bool:
        """Delete the draft. Gmail deletes it permanently, so an order that names it finds nothing.

        https://developers.google.com/workspace/gmail/api/reference/rest/v1/users.drafts/delete
        """
        if not self.is_unsent(prepared):
            return False
        try:
            self._client.write(
                "drafts.delete",
                lambda users: users.drafts().delete(userId="me", id=prepared.draft),
                scope=COMPOSE_SCOPE,
            )
        except NotFound:
            return False  # sent or deleted in between: the result is unknown
        return True

    def is_prepared(self, prepared: DraftNotes, draft: StoredDraft) -> bool:
        """Return True if the ids match, by draft and message or by message only.

        A draft whose creation was not confirmed is recognised by its mark.
        """
        named = DRAFT_ID.fullmatch(draft.id)
        if draft.id == prepared.message or (named and named[1] == prepared.draft):
            return True
        mark = lenient.decode_text(lenient.headers(draft.source)[MARK])
        return bool(prepared.marker) and mark == mark_of(prepared.marker)

    def find_lost_draft(self, marker: str) -> DraftNotes | None:
        """Return a draft whose creation was not confirmed, from the newest ones."""
        if not marker:
            return None
        answer = self._client.read(
            "drafts.list",
            lambda users: users.drafts().list(userId="me", maxResults=LOOKED_AT),
            patient=False,
        )
        drafts = {row["message"]["id"]: row["id"] for row in answer.get("drafts", ())}
        found = self._find_marked(list(drafts), marker)
        if found is None:
            return None
        return DraftNotes(marker=marker, draft=drafts[found[0]], message=found[0])

    def _find_in_sent(self, message_id: str) -> tuple[str, str] | None:
        """Return Gmail's id of the message in Sent, and the Message-ID that it shows."""
        if not lenient.REFERENCE.fullmatch(message_id):
            raise Refused("invalid_message_id")
        query = queries.message_id_term(message_id)
        for build in (
            lambda users: users.messages().list(
                userId="me", labelIds=["SENT"], q=query, maxResults=LOOKED_AT
            ),
            lambda users: users.messages().list(
                userId="me", labelIds=["SENT"], maxResults=LOOKED_AT
            ),
        ):
            answer = self._client.read("messages.list", build, patient=False)
            found = self._find_marked([row["id"] for row in answer.get("messages", ())], message_id)
            if found:
                return found
        return None

    def _find_marked(self, ids: list[str], marker: str) -> tuple[str, str] | None:
        """Return the first message that has our mark or the id itself, with the Message-ID that it
        shows.
        """
        if not ids:
            return None
        answers = self._client.each("messages.get", _get_markers, ids, again=True)
        for message_id, answer in zip(ids, answers, strict=True):
            if isinstance(answer, NotFound):
                continue
            if isinstance(answer, ProviderError):
                raise answer
            block = payload.headers(answer.get("payload", {}))
            named = any(marker == lenient.decode_text(block[name]) for name in ID_HEADERS)
            if named or lenient.decode_text(block[MARK]) == mark_of(marker):
                return message_id, lenient.decode_text(block["Message-ID"]) or marker
        return None


def _get_markers(users: Any, id_: str) -> Any:
    return users.messages().get(
        userId="me", id=id_, format="metadata", metadataHeaders=[MARK, *ID_HEADERS]
    )
