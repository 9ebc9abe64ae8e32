"""Delivery reports (RFC 3464) and read receipts (RFC 8098). Pure."""

import itertools
import re
from collections.abc import Iterator
from email.message import Message
from typing import Any

from tools.mail.message import lenient

MOST_BYTES = 256 * 1024
MOST_BLOCKS = 1_000  # of all reports in a mail, and of charsets that are detected in them
MOST_RECIPIENTS = 20  # that are named; the others are counted
REASON_CHARACTERS = 200
EMPTY_LINES = re.compile(rb"\n(?:[ \t]*\r?\n)+")
STATUS = re.compile(r"\b[245]\.[0-9]{1,3}\.[0-9]{1,3}\b")
ADDRESS = re.compile(r"<?([^<>\s]{1,320})>?")
# The report of qmail, which has no parts: http://cr.yp.to/proto/qsbmf.txt
QMAIL = re.compile(r"\AHi\. This is ")
DELIVERY = ("message/delivery-status", "message/global-delivery-status")
DISPOSITION = ("message/disposition-notification", "message/global-disposition-notification")
ORIGINAL = ("message/rfc822", "message/global", "text/rfc822-headers", "message/global-headers")
OTHER_PARTS = ("message/feedback-report",)
UNDELIVERED = ("failed", "delayed")


def read_delivery(content: bytes, left: Iterator[int]) -> list[dict[str, str]]:
    """Return the recipients that a delivery report names: address, action, status and reason.

    A block is read while numbers are `left`.
    """
    found = []
    for block in _blocks(content, left):
        address = _typed(block, "Final-Recipient") or _typed(block, "Original-Recipient")
        if not address:
            continue
        status = STATUS.search(lenient.decode_text(block["Status"]))
        row = {
            "address": _bare(address),
            "action": lenient.decode_text(block["Action"]).partition(" ")[0].lower(),
            "status": status[0] if status else "",
            "reason": _typed(block, "Diagnostic-Code")[:REASON_CHARACTERS],
        }
        found.append({name: value for name, value in row.items() if value})
    return found


def read_disposition(content: bytes, left: Iterator[int]) -> dict[str, str]:
    """Return the facts of a read receipt: the Message-ID it is about, the reader, and what
    happened.
    """
    block = next(_blocks(content, left), Message())
    disposition = lenient.decode_text(block["Disposition"])
    facts = {
        "of": lenient.decode_text(block["Original-Message-ID"]),
        "recipient": _bare(_typed(block, "Final-Recipient") or _typed(block, "Original-Recipient")),
        "disposition": disposition.rpartition(";")[2].partition("/")[0].strip().lower(),
    }
    return {name: value for name, value in facts.items() if value}


def read_original(content: bytes, left: Iterator[int]) -> dict[str, str]:
    """Return the Message-ID and the subject of the returned mail; nothing of mailhub's own mail."""
    block = lenient.headers(content, left=left)
    if lenient.own_mark(block):
        return {}
    facts = {
        "of": lenient.decode_text(block["Message-ID"]),
        "subject": lenient.decode_text(block["Subject"]),
    }
    return {name: value for name, value in facts.items() if value}


def find_in_text(block: Message, text: str | None) -> list[dict[str, str]]:
    """Return the recipients of a report without parts: Exim names them in a header, qmail in its
    text.
    """
    named = [each for _, each in lenient.addresses(block, "X-Failed-Recipients") if "@" in each]
    # Nobody reads the reasons of the others, and each is looked for in the whole text.
    found = [_describe(each, text or "") for each in named[:MOST_RECIPIENTS]]
    found += [_describe(each, "") for each in named[MOST_RECIPIENTS:]]
    if found or not text or not QMAIL.match(text):
        return found
    for paragraph in text[:MOST_BYTES].split("\n\n"):
        head, _, rest = paragraph.strip().partition("\n")
        if not (head.startswith("<") and head.endswith(">:")):
            continue
        status = STATUS.search(rest)
        reason = " ".join(rest.split())[:REASON_CHARACTERS]
        row = {"address": head[1:-2], "action": "failed", "status": status[0] if status else ""}
        found.append({name: value for name, value in {**row, "reason": reason}.items() if value})
    return found


def _describe(address: str, text: str) -> dict[str, str]:
    """Return a recipient with the reason that Exim writes below the address, indented."""
    _, _, below = text.partition(f"\n  {address}\n")
    rows = itertools.takewhile(lambda row: row.startswith("    "), below.split("\n", 20))
    reason = " ".join(" ".join(rows).split())
    status = STATUS.search(reason)
    row = {"address": address, "action": "failed", "status": status[0] if status else ""}
    row["reason"] = reason[:REASON_CHARACTERS]
    return {name: value for name, value in row.items() if value}


def classify(
    recipients: list[dict[str, str]], original: dict[str, str]
) -> tuple[str, dict[str, Any]]:
    """Return the kind and the facts of a delivery report: a report of success is a receipt."""
    if recipients and all(row.get("action", "") not in ("", *UNDELIVERED) for row in recipients):
        addresses = ", ".join(row["address"] for row in recipients[:MOST_RECIPIENTS])
        told = {"recipient": addresses, "disposition": recipients[0]["action"]}
        return "receipt", {**({"of": original["of"]} if "of" in original else {}), **told}
    more = len(recipients) - MOST_RECIPIENTS
    facts: dict[str, Any] = {"recipients": recipients[:MOST_RECIPIENTS], **original}
    return "bounce", facts | ({"more_recipients": more} if more > 0 else {})


def _blocks(content: bytes, left: Iterator[int]) -> Iterator[Message]:
    for block in EMPTY_LINES.split(content[:MOST_BYTES].lstrip()):
        if block.strip() and next(left, None) is not None:
            yield lenient.headers(block + b"\n\n", left=left)


def _typed(block: Message, name: str) -> str:
    """Return the value of a field after its type, such as `rfc822;`."""
    value = lenient.decode_text(block[name])
    kind, semicolon, rest = value.partition(";")
    return (rest if semicolon and " " not in kind.strip() else value).strip()


def _bare(address: str) -> str:
    found = ADDRESS.search(address)
    return found[1] if found else ""
