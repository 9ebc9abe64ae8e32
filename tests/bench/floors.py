"""The floor of delivery: plain smtplib."""

import smtplib
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

SENDER, RECIPIENT = "floor@lovelace.example", "mira@northwind.example"


def letter() -> str:
    return (
        f"From: {SENDER}\r\nTo: {RECIPIENT}\r\nSubject: Hello\r\nMessage-ID: <{uuid4().hex}@lovelace.example>\r\n"
        "Date: Mon, 02 Nov 2026 10:00:00 +0100\r\n\r\nHello Mira,\r\nuntil Thursday.\r\nAlice\r\n"
    )


@contextmanager
def signed_in(port: int) -> Iterator[smtplib.SMTP]:
    """Yield a connection, signed in. The fixed host name keeps smtplib from asking the resolver."""
    with smtplib.SMTP("127.0.0.1", port, local_hostname="localhost") as smtp:
        smtp.login("user", "password")
        yield smtp


def send(port: int) -> None:
    """Send one mail over a fresh connection, as any program does."""
    with signed_in(port) as smtp:
        smtp.sendmail(SENDER, [RECIPIENT], letter())


def keep_sending(port: int, number: int) -> None:
    """Send this number of mails over one kept connection."""
    with signed_in(port) as smtp:
        for _ in range(number):
            smtp.sendmail(SENDER, [RECIPIENT], letter())
