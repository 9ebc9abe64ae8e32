"""The mails of a load: short, made up, and complete enough for every page."""

from email.utils import format_datetime
from hashlib import sha256
from random import Random

from django.utils import timezone

from approvals.core.types import Preview, Proposal, Target
from tests.load.people import Box
from tests.support.stored import PLAIN

FIRST = "Mira Jonas Aiko Priya Samuel Lena Tomás Wei Fatima Olga Nils Rosa".split()
HOSTS = "northwind.example papermill.example kikai.example atelier.example".split()
ABOUT = "offer invoice delivery appointment contract order reminder question".split()
NUMBERS = 9000


def make_mail(chosen: Random, box: Box, message_id: str) -> Proposal:
    """Return the proposal of a mail that this mailbox could send."""
    name, host, about = chosen.choice(FIRST), chosen.choice(HOSTS), chosen.choice(ABOUT)
    to = f"{name.lower()}@{host}".encode("ascii", "replace").decode().replace("?", "a")
    subject = f"Your {about} {1000 + chosen.randrange(NUMBERS)}"
    text = f"Hello {name},\n\nthank you for the {about}. We will be in touch by Thursday.\n\nBest regards\n"
    source = (
        f"From: {box.address}\r\nTo: {to}\r\nSubject: {subject}\r\nMessage-ID: {message_id}\r\n"
        f"Date: {format_datetime(timezone.now())}\r\nMIME-Version: 1.0\r\n"
        "Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n\r\n"
        + text.replace("\n", "\r\n")
    ).encode()
    payload = {
        **PLAIN,
        "mailbox": str(box.id),
        "from": box.address,
        "to": [to],
        "subject": subject,
        "text": text,
        "message_id": message_id,
        "source_sha256": sha256(source).hexdigest(),
    }
    preview = Preview(
        title=subject,
        targets=(Target(address=to, role="to", name=name, external=True),),
        excerpt=text[:200],
        fingerprint=sha256(f"{box.id}{to}{subject}".encode()).hexdigest(),
    )
    return Proposal(
        kind="mail.send", payload=payload, preview=preview, message_id=message_id, blobs=(source,)
    )
