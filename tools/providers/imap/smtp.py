"""The handover of one message by SMTP, with a record of how far it got.

smtplib raises the same exception for a drop at RCPT and for a drop after the final dot. Before the
dot nothing can have been sent; after it only the server knows (RFC 1047). So this module makes each
step of the dialogue itself.
"""

import re
import smtplib
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime

from accounts.connect.imap import PinnedSmtp
from accounts.infra.foreign_text import parse_number
from accounts.infra.texts import translatable
from approvals.core.types import Proof
from tools.providers.base import Envelope, Receipt
from tools.providers.errors import OutcomeUnknown, Refused, Unavailable

# RFC 5321, 4.5.3.2.4 and 4.5.3.2.5: a client's timeouts for the answer to DATA, and for one block.
DATA_SECONDS = 120.0
BLOCK_SECONDS = 180.0
BLOCK_BYTES = 64 * 1024
MESSAGE_REFUSED = {550: "refused", 552: "too_large", 553: "send_as_denied", 554: "refused"}
# A server that accepts a bare line end would see a final dot inside the text, and commands after
# it.
BARE_LINE_END = re.compile(rb"\r(?!\n)|(?<!\r)\n")


def hand_over(
    smtp: PinnedSmtp, envelope: Envelope, *, wire_started: Callable[[], None], answer_seconds: float
) -> Receipt:
    """Send once.

    The deadline of `smtp` limits everything before the final dot; `answer_seconds` limits the
    answer to it.

    1. MAIL and RCPT. If one recipient is refused, RSET: nobody gets the mail, because the whole
       list was approved.
    2. DATA and the content, all but the final dot: without the dot no server accepts it.
    3. `wire_started`: from here on the message may have been sent.
    4. The dot, and the answer: 2xx is accepted, 4xx and 5xx mean that nothing was sent. No answer,
       or any other, is unknown.

    After 2xx the session is ready for another mail. After any error it is closed.
    """
    try:
        _transmit(smtp, envelope, answer_seconds)
        wire_started()
    except BaseException:
        smtp.close()  # without the dot the server drops the message
        raise
    code = _end_content(smtp, answer_seconds)
    if code // 100 != 2:
        leave(smtp)
    return _judge(code)


def _transmit(smtp: PinnedSmtp, envelope: Envelope, answer_seconds: float) -> None:
    """Do every step before the final dot. Raises NotSent errors."""
    try:
        _envelope(smtp, envelope)
        smtp.wait_for(DATA_SECONDS)
        code, _ = smtp.docmd("DATA")
        if code != 354:
            raise _refusal(code)
        smtp.wait_for(BLOCK_SECONDS)
        content = memoryview(_stuff_dots(envelope.source))
        for start in range(0, len(content), BLOCK_BYTES):
            smtp.send(content[start : start + BLOCK_BYTES])
        if not smtp.extend(answer_seconds):
            raise smtplib.SMTPServerDisconnected("the dialogue took too long")
    except (smtplib.SMTPServerDisconnected, OSError):
        raise Unavailable("connection_lost") from None


def _end_content(smtp: PinnedSmtp, answer_seconds: float) -> int:
    """Send the final dot and return the number of the answer; raise OutcomeUnknown without one."""
    try:
        smtp.wait_for(answer_seconds)
        smtp.send(b".\r\n")
        code, _ = smtp.getreply()
    except (smtplib.SMTPException, OSError):
        smtp.close()
        raise OutcomeUnknown("no_answer") from None
    return code


def _judge(code: int) -> Receipt:
    """Return the receipt for the answer to the final dot, or raise its error."""
    match code // 100:
        case 2:
            return Receipt(at=datetime.now(UTC))
        case 4 | 5:
            error = _refusal(code)
            error.proof = Proof(kind="answer")
            raise error
    raise OutcomeUnknown("no_verdict")  # smtplib also reads a number from half a line


def _envelope(smtp: PinnedSmtp, envelope: Envelope) -> None:
    if BARE_LINE_END.search(envelope.source):
        raise Refused("refused", "The message has line ends that a mail server could misread.")
    limit = smtp.esmtp_features.get("size", "")
    most = parse_number(limit)
    if most and most < len(envelope.source):
        raise Refused(
            "too_large", translatable("The server takes at most %(limit)s bytes.", limit=most)
        )
    code, _ = smtp.mail(envelope.sender, [f"size={len(envelope.source)}"] if limit else [])
    if code != 250:
        raise _refusal(code, "send_as_denied")
    refused = []
    for recipient in envelope.recipients:
        code, _ = smtp.rcpt(recipient)
        if code == 421:
            raise _refusal(code)
        if code in (250, 251):
            continue
        if code // 100 not in (4, 5):
            raise _refusal(code)
        refused.append((recipient, code))
    if refused:
        with suppress(smtplib.SMTPException, OSError):  # the refusal is valid even if RSET fails
            smtp.rset()
        if all(400 <= code < 500 for _, code in refused):
            raise Unavailable(f"smtp_{refused[0][1]}")
        named = ", ".join(recipient for recipient, code in refused if code >= 500)
        raise Refused(
            "invalid_recipient",
            translatable(
                "The server refused %(addresses)s. Nobody received the message.", addresses=named
            ),
        )


def _refusal(code: int, permanent: str = "") -> Refused | Unavailable:
    """Return the error for the server's number; its text is never used."""
    if 400 <= code < 500:
        # 421 is about the service, not this message.
        return Unavailable(f"smtp_{code}", pauses=code == 421)
    if not 500 <= code < 600:
        return Unavailable(
            "smtp_protocol", "The mail server gave an answer that mailhub cannot read."
        )
    named = "too_large" if code == 552 else permanent or MESSAGE_REFUSED.get(code, "refused")
    return Refused(
        named, translatable("The server refused the request with code %(code)s.", code=code)
    )


def _stuff_dots(source: bytes) -> bytes:
    """Return the content with a second dot before each leading dot (RFC 5321 4.5.2), ending in
    CRLF.
    """
    stuffed = source.replace(b"\r\n.", b"\r\n..")
    stuffed = b"." + stuffed if stuffed.startswith(b".") else stuffed
    return stuffed if stuffed.endswith(b"\r\n") else stuffed + b"\r\n"


def leave(smtp: PinnedSmtp) -> None:
    """Send QUIT and close without waiting; the answer is known, so a drop changes nothing."""
    with suppress(smtplib.SMTPException, OSError):
        smtp.putcmd("quit")
    smtp.close()
