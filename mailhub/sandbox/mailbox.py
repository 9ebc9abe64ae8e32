"""The mailboxes in the form that pymap needs, on top of the store.

pymap's own Maildir backend does not work here. It writes messages back through `email.generator`,
so line ends and header spacing change, and keywords are lost. If two connections read a folder
while a message is added, that message can get two UIDs. pymap's memory backend loses everything at
the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from pymap.backend.mailbox import MailboxDataInterface, MailboxSetInterface
from pymap.concurrent import Event
from pymap.exceptions import NotSupportedError
from pymap.flags import FlagOp
from pymap.interfaces.message import CachedMessage
from pymap.listtree import ListEntry, ListTree
from pymap.mailbox import MailboxSnapshot
from pymap.parsing.message import AppendMessage
from pymap.parsing.specials import Flag, ObjectId
from pymap.parsing.specials.flag import Recent, Seen, Wildcard, get_system_flags
from pymap.selected import SelectedMailbox, SelectedSet

from mailhub.sandbox.message import Contents, Message
from mailhub.sandbox.store import Entry, Folder, Incoming, Store

SPECIAL_USE = {"Sent": [b"Sent"], "Drafts": [b"Drafts"]}


class Snapshot(MailboxSnapshot):
    """The state of a folder, as SELECT and STATUS report it."""

    @property
    def flags(self) -> frozenset[Flag]:
        # The wildcard belongs in PERMANENTFLAGS; the FLAGS answer names only real flags.
        return super().flags - {Wildcard}


class MailboxData(MailboxDataInterface[Message]):
    """One folder, shared by all connections that select it.

    All calls run on one event loop and no method waits in its middle, so each is atomic without a
    lock.
    """

    def __init__(self, folder: Folder, store: Store, contents: Contents) -> None:
        self.folder = folder
        self._store = store
        self._contents = contents
        self._messages = {entry.uid: Message(entry, contents) for entry in store.entries(folder.id)}
        self._selected_set = SelectedSet()
        self._changed = Event.for_asyncio()
        self._revision = 0

    @property
    def mailbox_id(self) -> ObjectId:
        return ObjectId(b"F%x-%x" % (self.folder.id, self.folder.uid_validity))

    @property
    def readonly(self) -> bool:
        return False

    @property
    def uid_validity(self) -> int:
        return self.folder.uid_validity

    @property
    def permanent_flags(self) -> frozenset[Flag]:
        return (get_system_flags() - {Recent}) | {Wildcard}

    @property
    def selected_set(self) -> SelectedSet:
        return self._selected_set

    async def update_selected(
        self, selected: SelectedMailbox, *, wait_on: Event | None = None
    ) -> SelectedMailbox:
        if wait_on is not None and selected.mod_sequence == self._revision:
            await wait_on.or_event(self._changed).wait()
        if selected.mod_sequence == self._revision:
            selected.add_updates((), ())
        else:
            selected.set_messages(list(self._messages.values()))
        selected.mod_sequence = self._revision
        return selected

    async def append(self, append_msg: AppendMessage, *, recent: bool = False) -> Message:
        (entry,) = self._store.add(
            [
                Incoming(
                    folder=self.folder.id,
                    raw=append_msg.literal,
                    received=append_msg.when or datetime.now(UTC),
                    flags=frozenset(str(flag) for flag in append_msg.flag_set - {Recent}),
                    recent=recent,
                )
            ]
        )
        return self.show_new(entry)

    def show_new(self, entry: Entry) -> Message:
        """Show a newly stored message to every connection."""
        message = Message(entry, self._contents)
        self._messages[entry.uid] = message
        self._touch()
        return message

    async def copy(self, uid: int, destination: MailboxData, *, recent: bool = False) -> int | None:
        message = self._messages.get(uid)
        if message is None:
            return None
        entry = self._store.copy(message.id, destination.folder.id, recent=recent)
        return None if entry is None else destination.show_new(entry).uid

    async def move(self, uid: int, destination: MailboxData, *, recent: bool = False) -> int | None:
        copied = await self.copy(uid, destination, recent=recent)
        if copied is not None:
            await self.delete([uid])
        return copied

    async def get(self, uid: int, cached_msg: CachedMessage) -> Message:
        message = self._messages.get(uid)
        if message is None:
            assert isinstance(cached_msg, Message)
            return cached_msg.as_expunged()
        return message

    async def update(
        self, uid: int, cached_msg: CachedMessage, flag_set: frozenset[Flag], mode: FlagOp
    ) -> Message:
        message = await self.get(uid, cached_msg)
        flags = mode.apply(message.permanent_flags, flag_set - {Recent, Wildcard})
        if not message.expunged and flags != message.permanent_flags:
            self._store.set_flags(message.id, frozenset(str(flag) for flag in flags))
            message.permanent_flags = flags
            self._touch()
        return message

    async def delete(self, uids: Iterable[int]) -> None:
        gone = [uid for uid in uids if uid in self._messages]
        self._store.delete([self._messages[uid].id for uid in gone])
        for uid in gone:
            del self._messages[uid]
        self._touch()

    async def claim_recent(self, selected: SelectedMailbox) -> None:
        self._store.claim_recent(self.folder.id)
        for message in self._messages.values():
            if message.recent:
                message.recent = False
                selected.session_flags.add_recent(message.uid)
        self._touch()

    async def cleanup(self) -> None:
        """Do nothing, because the store needs no cleanup."""

    async def snapshot(self) -> MailboxSnapshot:
        messages = list(self._messages.values())
        unseen = [
            seq for seq, message in enumerate(messages, 1) if Seen not in message.permanent_flags
        ]
        return Snapshot(
            self.mailbox_id,
            self.readonly,
            self.uid_validity,
            self.permanent_flags,
            self.session_flags,
            len(messages),
            sum(message.recent for message in messages),
            len(unseen),
            unseen[0] if unseen else None,
            self._store.next_uid(self.folder.id),
        )

    def _touch(self) -> None:
        self._revision += 1
        self._changed.set()


class SpecialEntry(ListEntry):
    """A folder in an answer to LIST, with its special use."""

    @property
    def attributes(self) -> Sequence[bytes]:
        return [*super().attributes, *SPECIAL_USE.get(self.name, ())]


class SpecialTree(ListTree):
    """The folders of an account."""

    def list(self) -> Iterable[ListEntry]:
        return (SpecialEntry(**vars(entry)) for entry in super().list())


class MailboxSet(MailboxSetInterface[MailboxData]):
    """All folders of one account."""

    def __init__(self, account: str, store: Store) -> None:
        self.account = account
        self._store = store
        self._contents = Contents(store)
        self._mailboxes = {
            folder.name: MailboxData(folder, store, self._contents)
            for folder in store.folders(account)
        }

    @property
    def delimiter(self) -> str:
        return "/"

    @property
    def inbox(self) -> MailboxData:
        return self._mailboxes["INBOX"]

    async def set_subscribed(self, name: str, subscribed: bool) -> None:
        """Do nothing, because every folder is subscribed."""

    async def list_subscribed(self) -> ListTree:
        return await self.list_mailboxes()

    async def list_mailboxes(self) -> ListTree:
        return SpecialTree(self.delimiter).update(*self._mailboxes)

    async def get_mailbox(self, name: str) -> MailboxData:
        return self._mailboxes[_canonical(name)]

    async def add_mailbox(self, name: str) -> ObjectId:
        if not name or name in self._mailboxes:
            raise ValueError(name)
        folder = self._store.add_folder(self.account, name)
        mailbox = MailboxData(folder, self._store, self._contents)
        self._mailboxes[name] = mailbox
        return mailbox.mailbox_id

    async def delete_mailbox(self, name: str) -> None:
        mailbox = self._mailboxes.pop(name)
        self._store.delete_folder(mailbox.folder.id)

    async def rename_mailbox(self, before: str, after: str) -> None:
        if _canonical(before) == "INBOX":
            raise NotSupportedError()
        if before not in self._mailboxes:
            raise KeyError(before)
        if not after or after in self._mailboxes:
            raise ValueError(after)
        for name in [
            name for name in self._mailboxes if name == before or name.startswith(f"{before}/")
        ]:
            mailbox = self._mailboxes.pop(name)
            renamed = after + name.removeprefix(before)
            self._store.rename_folder(mailbox.folder.id, renamed)
            self._mailboxes[renamed] = mailbox


def _canonical(name: str) -> str:
    return "INBOX" if name.upper() == "INBOX" else name
