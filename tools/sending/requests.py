"""The parts of a proposal as a call gives them: recipients, message, remarks, and time."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from accounts.access.caller import Caller
from accounts.infra.problems import FieldError, Problem
from accounts.infra.texts import translatable
from accounts.models import Mailbox
from approvals.core.types import Remarks
from approvals.outbound.webhooks.subscriptions import refuse_callback
from tools.mail.message.compose import ComposeError, OutgoingMessage, Request, new_message
from tools.mail.message.draft_source import KeptParts, read_draft, read_kept
from tools.mail.parsers import run
from tools.mail.text.addresses import display_name, split_named
from tools.schemas import RemarkParameters

LONGEST_DELAY = timedelta(days=30)
_TAG = re.compile(
    r"</(?:p|b|i|u|a|em|strong|ul|ol|li|div|span|h[1-6]|table|tr|td)>|<br ?/?>", re.IGNORECASE
)


@dataclass(frozen=True, kw_only=True)
class Understood:
    """Bare addresses, the names of those in To and Cc by address in lower case, and sentences for the
    caller.
    """

    to: tuple[str, ...]
    cc: tuple[str, ...]
    bcc: tuple[str, ...]
    names: Mapping[str, str]
    notes: tuple[str, ...] = ()

    def envelope(self, mailbox: Mailbox) -> dict[str, Any]:
        """Return the members of a request that say who sends it and who receives it."""
        return {
            "from_address": mailbox.address,
            "from_name": mailbox.name,
            "to": self.to,
            "cc": self.cc,
            "bcc": self.bcc,
            "names": self.names,
        }


def understand(
    *,
    to: Iterable[str] = (),
    cc: Iterable[str] = (),
    bcc: Iterable[str] = (),
    names: Mapping[str, str] | None = None,
) -> Understood:
    """Return each address once, in the first list that has it; `names` are known before.

    The notes name the addresses that were given more than once, and those whose names are not sent.
    """
    lists: dict[str, list[str]] = {}
    place: dict[str, str] = {}
    named = dict(names or {})
    notes: list[str] = []
    for header, given in (("to", to), ("cc", cc), ("bcc", bcc)):
        lists[header] = []
        for name, address in map(split_named, given):
            if first := place.get(address.lower()):
                notes.append(f"{address} was given more than once. It stays in {first} only.")
                continue
            place[address.lower()] = header
            lists[header].append(address)
            if name and header == "bcc":
                notes.append(f"The name of {address} is not sent, because it is in bcc.")
            elif name and not display_name(name):
                notes.append(f"The name of {address} is not sent, because it is too long.")
            elif name:
                named[address.lower()] = name
    visible = [each.lower() for each in (*lists["to"], *lists["cc"])]
    return Understood(
        to=tuple(lists["to"]),
        cc=tuple(lists["cc"]),
        bcc=tuple(lists["bcc"]),
        names={each: named[each] for each in visible if each in named},
        notes=tuple(dict.fromkeys(notes)),
    )


def notes_of_text(text: str | None, body_type: str) -> tuple[str, ...]:
    """Return a sentence for a caller who writes HTML and does not say so."""
    if body_type != "text" or not _TAG.search(text or ""):
        return ()
    return ("The text has HTML tags. Readers see them as tags, unless body_type is html.",)


def encode(request: Request, *, message_id: str = "") -> OutgoingMessage:
    """Return the complete message, with a new Message-ID or the given one.

    Raises Problem `invalid_input` if no message can express exactly this.
    """
    try:
        return new_message(request, message_id=message_id)
    except ComposeError:
        raise Problem(
            "invalid_input", "The message cannot be encoded without changing its content."
        ) from None


def request_of_draft(source: bytes, mailbox: Mailbox) -> Request:
    """Return the content of the draft as a request.

    Raises Problem if it cannot be sent from here, and Unparsable.
    """
    found = run(read_draft, source, mailbox.address, mailbox.name)
    if isinstance(found, str):
        raise Problem("invalid_input", found)
    return found


def kept_of_draft(source: bytes, wanted: frozenset[str]) -> KeptParts:
    """Return these parts of the draft, by the names of KeptParts. Raises Problem, and Unparsable."""
    found = run(read_kept, source, wanted)
    if isinstance(found, str):
        raise Problem("invalid_input", found)
    return found


def read_remarks(parameters: RemarkParameters) -> Remarks:
    """Return the remarks of a call."""
    return Remarks(
        reason=parameters.reason or "",
        metadata=parameters.metadata or {},
        callback_url=parameters.callback_url or "",
    )


def check_callback(caller: Caller, parameters: RemarkParameters) -> None:
    """Raise Problem if the steps of the proposal cannot go to the callback address."""
    if parameters.callback_url is not None:
        refuse_callback(caller, parameters.callback_url)


def check_send_time(send_at: datetime | None) -> datetime | None:
    """Return the time. A time that has passed does not delay the mail, so it is no error.

    Raises Problem `invalid_input` if it is more than 30 days away, in either direction.
    """
    if send_at is None or abs(send_at - datetime.now(UTC)) <= LONGEST_DELAY:
        return send_at
    if send_at < datetime.now(UTC):
        detail, message = "The send time has passed.", translatable("is more than 30 days ago")
    else:
        detail = "The send time can be at most 30 days ahead."
        message = translatable("is more than 30 days away")
    raise Problem("invalid_input", detail, errors=(FieldError(field="send_at", message=message),))
