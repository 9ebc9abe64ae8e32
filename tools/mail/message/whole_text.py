"""The text of a message together with the messages inside it, for its reader. Pure."""

from collections.abc import Sequence
from dataclasses import replace
from html import escape
from typing import TYPE_CHECKING, cast

from tools.mail.message.content import as_html
from tools.mail.message.page_text import Readable, make_readable
from tools.mail.message.reading import Inner

if TYPE_CHECKING:
    from tools.providers.base import Message

LINE = "---------- Attached message ----------"
SHOWN_ADDRESSES = 20


def read_whole(message: "Message", *, in_time: bool = True, quoted: bool = True) -> Readable:
    """Return the text of a message, and below it each message inside it with its headers.

    Only the text of the message itself is folded. Raises Unparsable.
    """
    found = make_readable(message, in_time=in_time, quoted=quoted)
    for inner in message.inner:
        own = make_readable(cast("Message", inner), in_time=in_time)
        text = "\n".join([LINE, *_heads(inner), "", own.text]).rstrip("\n")
        found = replace(
            found,
            text=f"{found.text}\n\n{text}" if found.text else text,
            hidden_text_removed=found.hidden_text_removed or own.hidden_text_removed,
            notes=(*found.notes, *own.notes),
        )
    return found


def whole_page(html: str, inner: Sequence[Inner]) -> str:
    """Return the HTML of a message, and below it each message inside it with its headers."""
    for each in inner:
        head = "<br>".join(escape(row) for row in (LINE, *_heads(each)))
        html += f"\n<p>{head}</p>\n{as_html(each.text or '') if each.html is None else each.html}"
    return html


def _heads(inner: Inner) -> list[str]:
    name, address = inner.from_name, inner.from_address
    rows = {
        "From": f"{name} <{address}>" if name else address,
        "Date": inner.date.isoformat(timespec="seconds") if inner.date else "",
        "Subject": inner.subject,
        "To": ", ".join(inner.to[:SHOWN_ADDRESSES]),
    }
    return [f"{name}: {value}" for name, value in rows.items() if value]
