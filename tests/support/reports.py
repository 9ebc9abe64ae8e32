"""Delivery reports (RFC 3464), as a mail server writes them."""

from tests.support.servers.sandbox import ADA


def report(
    message_id: str, *failed: str, delayed: str = "", to: str = ADA, **headers: str
) -> bytes:
    """Return a delivery report as Postfix writes it, about the mail with this Message-ID.

    If it is empty, the returned headers do not have it.
    """
    said = [*((each, "failed") for each in failed), *([(delayed, "delayed")] if delayed else [])]
    blocks = "".join(
        f"\nFinal-Recipient: rfc822; {address}\nAction: {action}\nStatus: 5.1.1\n"
        "Diagnostic-Code: smtp; 550 No such user here\n"
        for address, action in said
    )
    returned = f"From: {to}\nSubject: Offer\n"
    returned += f"Message-ID: {message_id}\n" if message_id else ""
    more = "".join(f"{name.replace('_', '-')}: {value}\n" for name, value in headers.items())
    return (
        (
            f"From: Mail Delivery <MAILER-DAEMON@northwind.example>\nTo: {to}\n"
            "Subject: Undelivered Mail\nMessage-ID: <report@northwind.example>\n"
            f"Date: Mon, 02 Nov 2026 11:00:00 +0000\nMIME-Version: 1.0\n{more}"
            'Content-Type: multipart/report; report-type=delivery-status; boundary="b"\n\n'
            "--b\n\nIt could not be delivered.\n"
            "--b\nContent-Type: message/delivery-status\n\n"
            f"Reporting-MTA: dns; mx.northwind.example\n{blocks}\n"
            f"--b\nContent-Type: text/rfc822-headers\n\n{returned}\n--b--\n"
        )
        .replace("\n", "\r\n")
        .encode()
    )
