"""A message at Gmail as a tree of parts: from its bytes, or from Gmail's payload if it is large."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from email.message import Message as Block
from typing import Any

from tools.mail.message import mime
from tools.mail.message.authentication import GMAIL
from tools.mail.message.mime import Tree
from tools.providers.base import AttachmentInfo, Message
from tools.providers.errors import NotFound, ProviderError
from tools.providers.gmail import payload
from tools.providers.gmail.client import BuildOne
from tools.providers.gmail.mailbox import GmailMailbox
from tools.providers.messages import NO_ATTACHMENT, SOURCE_LIMIT, read_file, read_tree

TOGETHER_BYTES = 8 * SOURCE_LIMIT  # of the sources of a conversation


@dataclass(frozen=True, kw_only=True)
class GmailTree:
    """A message that was fetched: Gmail's own fields, and its tree."""

    answer: Mapping[str, Any]
    tree: Tree

    def read(self, *, id_: str, body: bool) -> Message:
        message = read_tree(
            self.tree,
            id_=id_,
            arrived=payload.arrival_time(self.answer),
            thread_id=str(self.answer.get("threadId", "")),
            body=body,
            own=GMAIL,
        )
        files = tuple(_as_gmail(info) for info in message.attachments)
        is_sent = "SENT" in self.answer.get("labelIds", ())
        return replace(message, attachments=files, is_sent=is_sent)

    def file(self, part_id: str, *, limit: int) -> tuple[AttachmentInfo, bytes]:
        number = payload.number_of(part_id)
        if not number:
            raise NotFound(NO_ATTACHMENT)
        info, content = read_file(self.tree, number, limit=limit)
        return _as_gmail(info), content


class GmailTrees:
    """The messages of one mailbox as trees."""

    def __init__(self, mailbox: GmailMailbox) -> None:
        self._mailbox = mailbox
        self._client = mailbox.client

    def fetch(self, message_id: str) -> GmailTree:
        """Return a message. Raises NotFound."""
        head = self._mailbox.get_message(message_id, fmt="metadata", fields=payload.HEAD)
        if not _is_small(head):
            return self.of_payload(self._mailbox.get_message(message_id))
        raw = self._mailbox.get_message(message_id, fmt="raw", fields="raw")
        return GmailTree(answer=head, tree=_tree_of(raw))

    def fetch_all(self, heads: Sequence[Mapping[str, Any]]) -> list[GmailTree]:
        """Return messages of which the fields beside the content are known, in the same order.

        The newest are read from their bytes, up to the limit of all together. A message that is
        gone is left out.
        """
        left, small = TOGETHER_BYTES, set()
        for head in reversed(heads):
            if _is_small(head) and _size_of(head) <= left:
                left -= _size_of(head)
                small.add(str(head["id"]))
        ids = [str(head["id"]) for head in heads]
        answers = self._fetch([id_ for id_ in ids if id_ in small], _get_raw)
        answers |= self._fetch([id_ for id_ in ids if id_ not in small], _get_full)
        return [
            GmailTree(answer=head, tree=_tree_of(answer))
            if id_ in small
            else self.of_payload(answer)
            for id_, head in zip(ids, heads, strict=True)
            if (answer := answers.get(id_)) is not None
        ]

    def _fetch(self, ids: Sequence[str], build: BuildOne) -> dict[str, Any]:
        """Return the answers by id. Raises ProviderError, but leaves out a message that is gone."""
        found = {}
        answers = self._client.each("messages.get", build, ids, again=True) if ids else []
        for id_, answer in zip(ids, answers, strict=True):
            if isinstance(answer, NotFound):
                continue
            if isinstance(answer, ProviderError):
                raise answer
            found[id_] = answer
        return found

    def of_payload(self, answer: Mapping[str, Any]) -> GmailTree:
        """Return a message as Gmail describes it."""

        def fetch(attachment_id: str) -> bytes:
            return self._attachment(str(answer["id"]), attachment_id)

        return GmailTree(answer=answer, tree=payload.tree_of(answer.get("payload", {}), fetch))

    def whole_blocks(self, answers: Sequence[Mapping[str, Any]]) -> dict[str, Block]:
        """Return the headers of the messages of which Gmail lost letters, by id.

        Gmail keeps only the UTF-8 of letters that are not encoded.
        """
        damaged = [
            str(answer["id"])
            for answer in answers
            if _is_small(answer) and payload.has_lost_letters(payload.headers(answer["payload"]))
        ]
        raws = self._client.each("messages.get", _get_raw, damaged, again=False) if damaged else []
        return {
            id_: _tree_of(raw).block
            for id_, raw in zip(damaged, raws, strict=True)
            if not isinstance(raw, ProviderError)
        }

    def _attachment(self, message_id: str, attachment_id: str) -> bytes:
        answer = self._mailbox.read_known(
            "attachments.get",
            lambda users: (
                users.messages()
                .attachments()
                .get(userId="me", messageId=message_id, id=attachment_id)
            ),
        )
        return payload.decode_base64(answer.get("data", ""))


def _is_small(answer: Mapping[str, Any]) -> bool:
    return _size_of(answer) <= SOURCE_LIMIT


def _size_of(answer: Mapping[str, Any]) -> int:
    return int(answer.get("sizeEstimate", SOURCE_LIMIT + 1))


def _tree_of(answer: Mapping[str, Any]) -> Tree:
    return mime.parse(payload.decode_base64(str(answer.get("raw", ""))))


def _as_gmail(info: AttachmentInfo) -> AttachmentInfo:
    return replace(info, id=payload.part_id_of(info.id))


def _get_raw(users: Any, id_: str) -> Any:
    return users.messages().get(userId="me", id=id_, format="raw", fields="id,raw")


def _get_full(users: Any, id_: str) -> Any:
    return users.messages().get(userId="me", id=id_, format="full")
