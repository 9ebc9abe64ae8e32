"""A message in Graph as a tree of parts, from its MIME content; large messages stay in Graph's JSON.

https://learn.microsoft.com/graph/outlook-get-mime-message
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tools.mail.message import mime
from tools.mail.message.authentication import EXCHANGE
from tools.mail.message.mime import Tree
from tools.providers.base import Message
from tools.providers.errors import Refused
from tools.providers.graph.client import GraphClient
from tools.providers.messages import SOURCE_LIMIT, read_tree

# An attachment of a tree; Graph's own attachments have marks of 12 digits of hexadecimal numbers.
NUMBER = re.compile(r"[0-9]{1,4}(?:\.[0-9]{1,4})*")


def is_number(attachment_id: str) -> bool:
    return NUMBER.fullmatch(attachment_id) is not None


def fetch_tree(client: GraphClient, path: str, row: Mapping[str, Any]) -> Tree | None:
    """Return the message at this path, or None if it is large or Graph does not give its bytes.

    `row` is its JSON with its attachments.
    """
    body = row.get("body") or {}
    sizes = [int(each.get("size") or 0) for each in row.get("attachments") or []]
    is_listed = "attachments" in row or not row.get("hasAttachments")
    is_whole = is_listed and "attachments@odata.nextLink" not in row
    if not is_whole or sum(sizes) + len(str(body.get("content") or "")) > SOURCE_LIMIT:
        return None
    try:
        return mime.parse(client.get(f"{path}/$value", raw=True).content)
    except Refused:
        return None


def read_source(tree: Tree, shown: Message) -> Message:
    """Return the message of a tree; what its headers lack is as Graph shows it."""
    found = read_tree(tree, id_=shown.id, arrived=shown.date, body=True, own=EXCHANGE)
    is_named = bool(found.from_address)
    return replace(
        found,
        from_address=found.from_address or shown.from_address,
        from_name=found.from_name if is_named else shown.from_name,
        to=found.to or shown.to,
        cc=found.cc or shown.cc,
        reply_to=found.reply_to or shown.reply_to,
        names={**shown.names, **found.names},
        subject=found.subject or shown.subject,
        message_id=found.message_id or shown.message_id,
        references=found.references or shown.references,
        own_mark=found.own_mark or shown.own_mark,
        authentication=found.authentication or shown.authentication,
    )
