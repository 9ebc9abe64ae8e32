"""A message on an IMAP server as a tree of parts: from its bytes, or from its BODYSTRUCTURE if it
is large.
"""

from datetime import datetime
from typing import Any

from accounts.people import own_mail
from tools.mail.message import lenient, mime
from tools.mail.message.mime import Tree
from tools.providers.errors import NotFound
from tools.providers.imap import structure
from tools.providers.imap.mailbox import body_of
from tools.providers.imap.sessions import Session
from tools.providers.messages import SOURCE_LIMIT

OWN = own_mail.HEADER.upper()
HEADERS = (
    "BODY.PEEK[HEADER.FIELDS (DATE FROM TO CC REPLY-TO SUBJECT MESSAGE-ID IN-REPLY-TO REFERENCES"
    f" X-FAILED-RECIPIENTS AUTO-SUBMITTED PRECEDENCE RECEIVED AUTHENTICATION-RESULTS {OWN})]"
)
ENCODED_BYTES = 1.4  # that base64, or quoted-printable of most languages, takes for one


def fetch_tree(session: Session, uid: int) -> tuple[Tree, datetime]:
    """Return the message and its time of arrival. Raises NotFound."""
    rows = session.client.fetch([uid], ["RFC822.SIZE", "INTERNALDATE"])
    if uid not in rows:
        raise NotFound()
    if rows[uid][b"RFC822.SIZE"] > SOURCE_LIMIT:
        return fetch_outline(session, uid)
    whole = session.client.fetch([uid], ["BODY.PEEK[]"])
    if uid not in whole:
        raise NotFound()  # it was removed in the meantime
    return mime.parse(body_of(whole[uid])), rows[uid][b"INTERNALDATE"]


def fetch_outline(session: Session, uid: int) -> tuple[Tree, datetime]:
    """Return the message as its server describes it; the contents are fetched when they are
    loaded.
    """
    found = fetch_outlines(session, [uid])
    if uid not in found:
        raise NotFound()
    return found[uid]


def fetch_outlines(session: Session, uids: list[int]) -> dict[int, tuple[Tree, datetime]]:
    rows = fetch_structures(session, uids, [HEADERS, "INTERNALDATE"]) if uids else {}
    return {uid: _outline_of(session, uid, row) for uid, row in rows.items()}


def _outline_of(session: Session, uid: int, row: dict[bytes, Any]) -> tuple[Tree, datetime]:
    def load(number: str, encoding: str, limit: int | None) -> bytes:
        part = "" if limit is None else f"<0.{int(limit * ENCODED_BYTES)}>"
        found = session.client.fetch([uid], [f"BODY.PEEK[{number}]{part}"])
        if uid not in found:
            raise NotFound()
        return mime.decode_transfer(body_of(found[uid]), encoding)[:limit]

    root, left_out = structure.tree_of(row.get(b"BODYSTRUCTURE"), load)
    block = lenient.headers(body_of(row), mime.charset_of(root))
    return Tree(root=root, block=block, left_out=left_out), row[b"INTERNALDATE"]


def fetch_structures(
    session: Session, uids: list[int], items: list[str]
) -> dict[int, dict[bytes, Any]]:
    """Return the requested items and the structure of each message.

    A message that is nested too deep for IMAPClient's parser has no structure, and does not
    hide the others.
    """
    try:
        rows = session.client.fetch(uids, [*items, "BODYSTRUCTURE"])
    except RecursionError:
        if len(uids) == 1:
            return dict(session.client.fetch(uids, items or ["FLAGS"]))
        return {
            number: row
            for uid in uids
            for number, row in fetch_structures(session, [uid], items).items()
        }
    return dict(rows)
