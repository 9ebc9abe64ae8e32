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
# Enhanced codes (RFC 3463) for a sender, the last two of Exchange. The rest of an answer is never used.
OF_SENDER = re.compile(rb"5\.(?:1\.[78]|7\.60|2\.252)(?![\d.])")
# Postfix refuses a sender only at each recipient, so at the first one too (smtpd_delay_reject).
SENDER_AT_RECIPIENT = (553, b"5.7.1 ")
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
    2. DATA and the content, all but the final dot: without the dot no server accepts it. A server
       that answers before the dot does not get it.
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
    code, text = _end_content(smtp, answer_seconds)
    if code // 100 != 2:
        leave(smtp)
    return _judge(code, text)


def _transmit(smtp: PinnedSmtp, envelope: Envelope, answer_seconds: float) -> None:
    """Do every step before the final dot. Raises NotSent errors."""
    try:
        _envelope(smtp, envelope)
        smtp.wait_for(DATA_SECONDS)
        code, text = smtp.docmd("DATA")
        if code != 354:
            raise _refusal(code, text)
        smtp.wait_for(BLOCK_SECONDS)
        content = memoryview(_stuff_dots(envelope.source))
        for start in range(0, len(content), BLOCK_BYTES):
            smtp.send(content[start : start + BLOCK_BYTES])
        if smtp.has_answered():  # it would be taken for the answer to the dot
            raise _refusal(*smtp.getreply())
        if not smtp.extend(answer_seconds):
            raise smtplib.SMTPServerDisconnected("the dialogue took too long")
    except (smtplib.SMTPServerDisconnected, OSError):
        raise Unavailable("connection_lost") from None


def _end_content(smtp: PinnedSmtp, answer_seconds: float) -> tuple[int, bytes]:
    """Send the final dot and return the answer; raise OutcomeUnknown without one."""
    try:
        smtp.wait_for(answer_seconds)
        smtp.send(b".\r\n")
        return smtp.getreply()
    except (smtplib.SMTPException, OSError):
        smtp.close()
        raise OutcomeUnknown("no_answer") from None


def _judge(code: int, text: bytes) -> Receipt:
    """Return the receipt for the answer to the final dot, or raise its error."""
    match code // 100:
        case 2:
            return Receipt(at=datetime.now(UTC))
        case 4 | 5:
            error = _refusal(code, text)
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
    code, text = smtp.mail(envelope.sender, [f"size={len(envelope.source)}"] if limit else [])
    if code != 250:
        raise _refusal(code, text, "send_as_denied")
    refused = []
    for recipient in envelope.recipients:
        code, text = smtp.rcpt(recipient)
        if code in (250, 251):
            continue
        if recipient == envelope.recipients[0] and (code, text[:6]) == SENDER_AT_RECIPIENT:
            raise _refusal(code, text, "send_as_denied")
        if code == 421 or code // 100 not in (4, 5) or OF_SENDER.match(text):
            raise _refusal(code, text)
        refused.append((recipient, code))
    if refused:
        with suppress(smtplib.SMTPException, OSError):  # the refusal is valid even if RSET fails
            smtp.rset()
        is_for_now = all(400 <= code < 500 for _, code in refused)
        named = ", ".join(recipient for recipient, code in refused if code >= 500 or is_for_now)
        detail = translatable("The server refused %(addresses)s.", addresses=named)
        if is_for_now:
            raise Unavailable(f"smtp_{refused[0][1]}", detail, answers=True)
        raise Refused("invalid_recipient", detail)


def _refusal(code: int, text: bytes, permanent: str = "") -> Refused | Unavailable:
    """Return the error for the server's number, and for its enhanced code if that names the sender."""
    if 400 <= code < 500:
        # 421 is about the service, not this message.
        return Unavailable(f"smtp_{code}", pauses=code == 421, answers=True)
    if not 500 <= code < 600:
        return Unavailable(
            "smtp_protocol", "The mail server gave an answer that mailhub cannot read."
        )
    if OF_SENDER.match(text):
        permanent = "send_as_denied"
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
