"""The message of a tree of parts, for every provider that has one."""

from dataclasses import replace
from datetime import datetime
from itertools import chain

from accounts.infra.texts import translatable
from tools.mail.message import lenient, reading
from tools.mail.message.authentication import OwnServers, read_verdicts
from tools.mail.message.mime import Tree
from tools.providers.base import AttachmentInfo, Message
from tools.providers.errors import NotFound, Refused

# Larger messages are read from the structure that their provider describes, so that a text does not
# cost the transfer of its attachments.
SOURCE_LIMIT = 1024 * 1024
NO_ATTACHMENT = translatable("There is no such attachment; list_attachments names them.")


def read_tree(
    tree: Tree,
    *,
    id_: str,
    arrived: datetime | None,
    body: bool,
    own: OwnServers,
    thread_id: str = "",
) -> Message:
    """Return the message of a tree; without `body`, without its texts and facts.

    `own` are the servers that take the mail of the mailbox.
    """
    block = tree.block
    found = reading.read(tree, with_text=body)
    name, address = lenient.sender(block)
    listed = {header: lenient.addresses(block, header) for header in ("Reply-To", "To", "Cc")}
    return Message(
        id=id_,
        from_address=address,
        from_name=name,
        to=tuple(entry for _, entry in listed["To"]),
        cc=tuple(entry for _, entry in listed["Cc"]),
        reply_to=tuple(entry for _, entry in listed["Reply-To"]),
        names=names_of((name, address), *chain.from_iterable(listed.values())),
        subject=lenient.decode_text(block["Subject"]),
        date=lenient.date_of(block, arrived),
        message_id=lenient.decode_text(block["Message-ID"]),
        references=lenient.references(block),
        own_mark=lenient.own_mark(block),
        thread_id=thread_id,
        text=found.text,
        html=found.html,
        kind=found.kind,
        facts=found.facts,
        notes=found.notes,
        inner=found.inner,
        authentication=read_verdicts(block, own),
        attachments=found.attachments,
        arrived=arrived,
        is_automatic=lenient.is_automatic(block, tree.root.type, address),
        is_report=lenient.is_report(block, tree.root.type, address),
    )


def read_file(tree: Tree, number: str, *, limit: int) -> tuple[AttachmentInfo, bytes]:
    """Return an attachment and its bytes. Raises NotFound, or Refused("too_large")."""
    found = reading.find_file(tree, number)
    if found is None:
        raise NotFound(NO_ATTACHMENT)
    info, part = found
    # An estimate may be too high; the exact size is checked after the fetch.
    if info.size * (9 if info.size_is_estimate else 10) // 10 > limit:
        raise too_large(limit)
    content = part.load(None)
    if len(content) > limit:
        raise too_large(limit)
    return replace(info, size=len(content), size_is_estimate=False), content


def too_large(limit: int) -> Refused:
    return Refused(
        "too_large",
        translatable("The attachment is larger than %(limit)s bytes.", limit=f"{limit:,}"),
    )


def names_of(*entries: tuple[str, str]) -> dict[str, str]:
    """Return the first name of each address, by address in lower case."""
    return {address.lower(): name for name, address in reversed(entries) if name}
