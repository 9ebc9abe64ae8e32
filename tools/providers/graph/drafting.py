"""Drafts: new ones, or Graph's own reply to a message, so that Exchange keeps the conversation."""

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from email import policy
from email.parser import BytesHeaderParser
from typing import Any, Literal

from accounts.infra.texts import translatable
from tools.providers.base import NOT_A_DRAFT, StoredDraft
from tools.providers.errors import NotFound, ProviderError, Refused, Unsupported
from tools.providers.graph.attachments import GraphAttachments
from tools.providers.graph.client import WRITE
from tools.providers.graph.mailbox import STATE, GraphMailbox, addresses, path_in, path_of
from tools.providers.graph.outgoing import Outgoing, parse_outgoing
from tools.providers.graph.queries import quote_text

NOT_READABLE = translatable(
    "Some Bcc recipients of this draft cannot be read. Check the draft in the mailbox."
)
BARE_ADDRESS = re.compile(r"[^\s,;<>@]+@[^\s,;<>@]+")
GONE = translatable(
    "The draft is gone, or a change gave it another id. Call list_drafts to see what is there."
)
ANSWERED_GONE = translatable("The mail that this answers is no longer in the mailbox.")
FORWARDED_GONE = translatable("The mail that this forwards is no longer in the mailbox.")


class GraphDrafts:
    """The drafts of one mailbox; it changes the drafts folder only."""

    def __init__(self, mailbox: GraphMailbox, attachments: GraphAttachments) -> None:
        self._mailbox = mailbox
        self._client = mailbox.client
        self._attachments = attachments

    def save_draft(self, source: bytes, *, replaces: str | None = None) -> StoredDraft:
        old = self._draft(replaces) if replaces is not None else None
        outgoing = parse_outgoing(source)
        draft = self.create(outgoing, kind="reply" if outgoing.in_reply_to else "send", original="")
        with self._delete_on_failure(draft):
            self._attachments.fill(path_of(draft), outgoing.files)
            stored = self.read_draft(self._mailbox.shorten(draft))
        if old is not None:
            self._client.call("DELETE", path_of(str(old["id"])), scope=WRITE)
        return stored

    def read_draft(self, draft_id: str) -> StoredDraft:
        state = self._draft(draft_id)
        source = self._client.get(f"{path_of(str(state['id']))}/$value", raw=True).content
        return StoredDraft(
            id=draft_id,
            number=None,
            source=_with_bcc(source, state),
            version=str(state.get("changeKey") or ""),
        )

    def delete_draft(self, draft_id: str) -> None:
        self._client.call("DELETE", path_of(str(self._draft(draft_id)["id"])), scope=WRITE)

    def create(
        self, outgoing: Outgoing, *, kind: Literal["send", "reply", "forward"], original: str
    ) -> str:
        """Create an empty or half-filled draft of the right sort; return its id in Graph."""
        if kind == "send" or (kind == "forward" and not original):
            body = {
                **outgoing.as_json(),
                "internetMessageId": outgoing.message_id,
                **outgoing.marker_json(),
            }
            return _id_of(self._client.call("POST", "/messages", scope=WRITE, json=body).body)
        forwards = kind == "forward"
        action = "createForward" if forwards else "createReply"
        try:
            path = (
                self._mailbox.find_message(original)
                if original
                else self._answered_path(outgoing.in_reply_to)
            )
            answer = self._client.call(
                "POST", f"{path}/{action}", scope=WRITE, json={"message": outgoing.marker_json()}
            )
        except NotFound:
            raise NotFound(FORWARDED_GONE if forwards else ANSWERED_GONE) from None
        draft = _id_of(answer.body)
        # Replace the recipients and the text that Graph put there by the approved ones; `[]`
        # removes a list.
        everybody: dict[str, Any] = {"toRecipients": [], "ccRecipients": [], "bccRecipients": []}
        body = {
            **everybody,
            **outgoing.as_json(),
            "internetMessageId": outgoing.message_id,
            **outgoing.marker_json(),
        }
        with self._delete_on_failure(draft):
            self._client.call("PATCH", path_of(draft), scope=WRITE, json=body)
        return draft

    def _draft(self, draft_id: str) -> dict[str, Any]:
        """Return the state of a draft in the drafts folder. Raises the same errors as
        `save_draft`.
        """
        try:
            state = self._client.get(
                self._mailbox.find_message(draft_id), {"$select": f"{STATE},bccRecipients"}
            ).body
        except NotFound:
            raise NotFound(GONE) from None
        if not state.get("isDraft"):
            raise Refused("not_a_draft", NOT_A_DRAFT)
        if state.get("parentFolderId") != self._mailbox.find_role("drafts"):
            raise NotFound(GONE)  # the mailbox owner deleted it
        return dict(state)

    @contextmanager
    def _delete_on_failure(self, draft: str) -> Iterator[None]:
        """Delete the draft if filling it fails, so that nobody finds and sends an
        incomplete mail.
        """
        try:
            yield
        except ProviderError:
            with suppress(ProviderError):
                self._client.call("DELETE", path_in("drafts", draft), scope=WRITE)
            raise

    def _answered_path(self, message_id: str) -> str:
        """Return the path of the message that a draft answers.

        Graph keeps threading headers only in answers that it created itself.
        """
        rows = self._client.rows(
            "/messages",
            {
                "$filter": f"internetMessageId eq {quote_text(message_id)}",
                "$select": "id,isDraft",
                "$top": 5,
            },
            enough=5,
        )
        found = next((str(row["id"]) for row in rows if not row.get("isDraft")), None)
        if found is None:
            raise Unsupported("unsupported", ANSWERED_GONE)
        return path_of(found)


def _with_bcc(source: bytes, state: dict[str, Any]) -> bytes:
    """Return the bytes with all recipients of a blind copy: it is not documented whether Graph puts
    Bcc into them.
    """
    header = BytesHeaderParser(policy=policy.default).parsebytes(source)["Bcc"]
    named = {address.addr_spec.lower() for address in header.addresses} if header else set()
    wanted = addresses(state, "bccRecipients")
    nameless = len(wanted) < len(state.get("bccRecipients") or [])
    if not nameless and named >= {address.lower() for address in wanted}:
        return source
    if nameless or header or not all(BARE_ADDRESS.fullmatch(address) for address in wanted):
        raise Refused("refused", NOT_READABLE)
    return f"Bcc: {', '.join(wanted)}\r\n".encode() + source


def _id_of(body: Any) -> str:
    return str(body["id"])
