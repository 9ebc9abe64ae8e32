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
SMALL_BYTES = 64 * 1024  # of a mail that one call reads whole
ENCODED_BYTES = 1.4  # that base64, or quoted-printable of most languages, takes for one


def fetch_tree(session: Session, uid: int) -> tuple[Tree, datetime]:
    """Return the message and its time of arrival. Raises NotFound."""
    row = _fetch(session, uid, ["RFC822.SIZE", "INTERNALDATE", f"BODY.PEEK[]<0.{SMALL_BYTES}>"])
    if row[b"RFC822.SIZE"] > SOURCE_LIMIT:
        return fetch_outline(session, uid)
    source = body_of(row)
    if len(source) >= SMALL_BYTES:
        source = body_of(_fetch(session, uid, ["BODY.PEEK[]"]))
    return mime.parse(source), row[b"INTERNALDATE"]


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
        content = body_of(_fetch(session, uid, [f"BODY.PEEK[{number}]{part}"]))
        return mime.decode_transfer(content, encoding)[:limit]

    root, left_out = structure.tree_of(row.get(b"BODYSTRUCTURE"), load)
    block = lenient.headers(body_of(row), mime.charset_of(root))
    return Tree(root=root, block=block, left_out=left_out), row[b"INTERNALDATE"]


def _fetch(session: Session, uid: int, items: list[str]) -> dict[bytes, Any]:
    rows: dict[int, dict[bytes, Any]] = session.client.fetch([uid], items)
    if uid not in rows:
        raise NotFound()
    return rows[uid]


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
