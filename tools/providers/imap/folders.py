"""The folders of a mailbox by their role, and the creation of a missing one."""

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from imapclient import IMAPClient

from tools.providers.imap.folder_names import NAMES
from tools.providers.imap.sessions import Session

SPECIAL_USE = {
    "sent": rb"\Sent",
    "drafts": rb"\Drafts",
    "archive": rb"\Archive",
    "junk": rb"\Junk",
    "trash": rb"\Trash",
}
CREATED = {"sent": "Sent", "drafts": "Drafts"}  # the only roles that mailhub writes to
HOLDS_NOTHING = {b"\\Noselect", b"\\NonExistent"}


@dataclass(frozen=True, kw_only=True)
class ListedFolder:
    """A folder that holds mail; `role` is empty for all but one folder of each role."""

    name: str
    role: str


def list_folders(session: Session, chosen: Mapping[str, str]) -> list[ListedFolder]:
    """Return the folders that hold mail.

    The folder that a person chose for a role has it, as long as it is there. Else it is the first
    folder with a flag of RFC 6154. If no folder has the flag, it is the one with a usual name
    directly under the personal namespace or INBOX: deeper ones belong to other accounts and
    archives.
    """
    listed = [
        (str(name), (delimiter or b"/").decode(), set(flags))
        for flags, delimiter, name in session.client.list_folders()
        if not HOLDS_NOTHING & set(flags)
    ]
    roles = {name: "inbox" for name, _, _ in listed if name.upper() == "INBOX"}
    names = {name for name, _, _ in listed} - roles.keys()
    taken = {role: name for role, name in chosen.items() if name in names}
    roles |= {name: role for role, name in taken.items()}
    prefix = _read_prefix(session)
    for role, flag in SPECIAL_USE.items():
        if role in taken:
            continue
        flagged = [name for name, _, flags in listed if flag in flags]
        named = sorted(
            (rank, name)
            for name, delimiter, _ in listed
            if (rank := _rank(name, prefix, delimiter, NAMES[role])) is not None
        )
        for name in [*flagged, *(name for _, name in named)]:
            if name not in roles:
                roles[name] = role
                break
    return [ListedFolder(name=name, role=roles.get(name, "")) for name, _, _ in listed]


def create_folder(session: Session, role: str) -> str:
    """Create the folder of a role, subscribe to it, and return its name."""
    client = session.client
    name = _read_prefix(session) + CREATED[role]
    if not client.has_capability("CREATE-SPECIAL-USE") or not _create_with_use(client, name, role):
        client.create_folder(name)
    client.subscribe_folder(name)
    return name


def _create_with_use(client: IMAPClient, name: str, role: str) -> bool:
    use = b"(USE (" + SPECIAL_USE[role] + b"))"
    # imapclient's `create_folder` knows no USE.
    verdict, _ = client._raw_command(b"CREATE", [client._normalise_folder(name), use], uid=False)
    return bool(verdict == "OK")


def _read_prefix(session: Session) -> str:
    if session.prefix is None:
        personal = None
        if session.client.has_capability("NAMESPACE"):
            personal = session.client.namespace().personal
        session.prefix = str(personal[0][0]) if personal else ""
    return session.prefix


def _rank(name: str, prefix: str, delimiter: str, usual: Sequence[str]) -> tuple[int, int] | None:
    """Return where the folder is and how usual its name is, the smallest first; None if neither."""
    for place, above in enumerate((prefix, f"INBOX{delimiter}", "")):
        if name.upper().startswith(above.upper()):
            leaf = unicodedata.normalize("NFC", name[len(above) :]).lower()
            if leaf in usual:
                return place, usual.index(leaf)
    return None
