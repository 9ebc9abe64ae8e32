"""The mail of the first start: a few ordinary days in Ada's mailbox."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime

from mailhub.sandbox.store import Incoming

FOLDERS = ("INBOX", "Sent", "Drafts")

ADA = Address("Ada Lovelace", "ada", "lovelace.example")
CHARLES = Address("Charles Babbage", "charles", "lovelace.example")
MIRA = Address("Mira Holm", "mira", "northwind.example")
ROADSIDE = Address("Roadside Assistance Desk", "desk", "roadassist.example")
ZOE = Address("Zoë Krüger", "zoe", "atelier-zoe.example")
TANAKA = Address("田中 花子", "hanako.tanaka", "kikai.example")
NEWS = Address("The Loom Weekly", "news", "loomweekly.example")
CALENDAR = Address("Calendar", "calendar", "lovelace.example")
BILLING = Address("Papermill Billing", "billing", "papermill.example")

NEWSLETTER = """\
<!doctype html>
<html><head><title>The Loom Weekly</title></head><body style="font-family: Georgia, serif">
<div style="display:none;max-height:0;overflow:hidden">Three looms, one pattern, and a discount inside.</div>
<img src="https://img.loomweekly.example/open/7f3a.gif" width="1" height="1" alt="">
<img src="https://img.loomweekly.example/header.png" width="560" alt="The Loom Weekly">
<h1>Punched cards are back</h1>
<p>This week we visit a mill in Lyon where an 1804 loom still runs every morning.</p>
<ul><li><a href="https://loomweekly.example/lyon">A day in Lyon</a></li>
<li><a href="https://loomweekly.example/cards">Cutting your own cards</a></li></ul>
<p style="color:#888;font-size:11px">You receive this because you subscribed.
<a href="https://loomweekly.example/unsubscribe">Unsubscribe</a></p>
</body></html>
"""

INVITATION = """\
BEGIN:VCALENDAR
VERSION:2.0
PRODID:-//Lovelace//Calendar//EN
METHOD:REQUEST
BEGIN:VEVENT
UID:design-review@lovelace.example
DTSTAMP:{stamp}
DTSTART:{start}
DTEND:{end}
ORGANIZER;CN=Charles Babbage:mailto:charles@lovelace.example
ATTENDEE;CN=Ada Lovelace;RSVP=TRUE:mailto:ada@lovelace.example
SUMMARY:Design review: difference engine
LOCATION:Workshop
END:VEVENT
END:VCALENDAR
"""


@dataclass(frozen=True, kw_only=True)
class Letter:
    """A message of the seed before it has bytes: its age in hours, people, text and thread."""

    key: str
    hours: float
    sender: Address
    to: tuple[Address, ...] = (ADA,)
    cc: tuple[Address, ...] = ()
    subject: str
    text: str
    answers: tuple[str, ...] = ()
    seen: bool = True
    flags: frozenset[str] = frozenset()


LETTERS = (
    Letter(
        key="delivery-1",
        hours=52,
        sender=MIRA,
        subject="Delivery on Thursday?",
        text="""\
Hello Ada,

we are planning the installation of the second mill for next week. Can you confirm that the
gear sets will arrive on Thursday? Our fitters are booked for Friday morning.

Order 2207, delivery address as last time.

Kind regards
Mira Holm
Northwind Mills
""",
        flags=frozenset({"\\Answered"}),
    ),
    Letter(
        key="delivery-2",
        hours=49,
        sender=ADA,
        to=(MIRA,),
        subject="Re: Delivery on Thursday?",
        text="""\
Dear Mira,

the gear sets left the workshop this morning. I have asked the carrier for a time window and
will write again as soon as I have one.

Best wishes
Ada
""",
        answers=("delivery-1",),
    ),
    Letter(
        key="delivery-3",
        hours=3,
        sender=MIRA,
        subject="Re: Delivery on Thursday?",
        text="""\
Thank you, Ada. Did the carrier answer? If Thursday does not work we would have to move the
fitters, and I need to tell them by tomorrow noon.

Could you also send me the packing list?

Mira

> the gear sets left the workshop this morning. I have asked the carrier for a time window and
> will write again as soon as I have one.
""",
        answers=("delivery-1", "delivery-2"),
        seen=False,
    ),
    Letter(
        key="offer",
        hours=140,
        sender=ADA,
        to=(MIRA,),
        subject="Offer 2207: gear sets",
        text="Dear Mira,\n\nas discussed: two gear sets, brass, delivery within three weeks.\n\nAda\n",
    ),
    Letter(
        key="accident",
        hours=5,
        sender=ROADSIDE,
        cc=(CHARLES,),
        subject="Accident report 4471: van LV-207",
        text="""\
Dear Ms Lovelace,

your company van LV-207 was towed this morning after a collision at the canal bridge. Nobody was
hurt. The report is attached.

Please forward it to your insurer (claims@insura.example) within two days. Policy number on page 1.

Roadside Assistance Desk
""",
        seen=False,
        flags=frozenset({"\\Flagged"}),
    ),
    Letter(
        key="newsletter",
        hours=20,
        sender=NEWS,
        subject="Punched cards are back",
        text=NEWSLETTER,
        seen=False,
    ),
    Letter(
        key="review",
        hours=27,
        sender=CALENDAR,
        cc=(CHARLES,),
        subject="Invitation: Design review: difference engine",
        text="Charles Babbage invites you to: Design review: difference engine\nWhere: Workshop\n",
    ),
    Letter(
        key="zoe",
        hours=30,
        sender=ZOE,
        subject="Entwürfe für die Ausstellung: café at 10?",
        text="Liebe Ada,\n\nthe sketches are ready, see below. Shall we meet in the café at ten?\n\nZoë\n",
        seen=False,
    ),
    Letter(
        key="tanaka",
        hours=74,
        sender=TANAKA,
        subject="日本語の説明書について (manual in Japanese)",
        text="""\
ラブレス様

お世話になっております。説明書の日本語版はいつ頃完成する予定でしょうか。

In English: when do you expect the Japanese edition of the manual to be finished?

田中 花子
""",
    ),
    Letter(
        key="invoice",
        hours=98,
        sender=BILLING,
        subject="Invoice 10482 for card stock",
        text="Dear customer,\n\ninvoice 10482 over 312.40 is due in 14 days.\n\nPapermill Billing\n",
    ),
    Letter(
        key="engine-1",
        hours=120,
        sender=CHARLES,
        subject="Carry mechanism",
        text="Ada,\n\nthe anticipating carriage jams at column nine. Ideas?\n\nCharles\n",
    ),
    Letter(
        key="engine-2",
        hours=118,
        sender=ADA,
        to=(CHARLES,),
        subject="Re: Carry mechanism",
        text="Could it be the tolerance of the levers? Try a spare set from the second batch.\n\nAda\n",
        answers=("engine-1",),
    ),
    Letter(
        key="engine-3",
        hours=115,
        sender=CHARLES,
        subject="Re: Carry mechanism",
        text="Tried it. Better, but it still jams once in two hundred turns.\n\nCharles\n",
        answers=("engine-1", "engine-2"),
    ),
    Letter(
        key="engine-4",
        hours=95,
        sender=CHARLES,
        subject="Re: Carry mechanism",
        text="Found a burr on lever six. Filed it down; five hundred turns without a jam.\n\nCharles\n",
        answers=("engine-1", "engine-2", "engine-3"),
    ),
    Letter(
        key="engine-5",
        hours=94,
        sender=ADA,
        to=(CHARLES,),
        subject="Re: Carry mechanism",
        text="Wonderful. Please note the tolerance in the drawing before we cut the next batch.\n\nAda\n",
        answers=("engine-1", "engine-2", "engine-3", "engine-4"),
    ),
    Letter(
        key="engine-6",
        hours=46,
        sender=CHARLES,
        subject="Re: Carry mechanism",
        text="Done, drawing 17 rev C. I also ordered new files.\n\nCharles\n",
        answers=("engine-1", "engine-2", "engine-3", "engine-4", "engine-5"),
    ),
    Letter(
        key="keys",
        hours=9,
        sender=CHARLES,
        subject="Workshop keys",
        text="I leave the workshop keys with the porter tonight. Back on Monday.\n\nCharles\n",
        seen=False,
    ),
    Letter(
        key="quote",
        hours=1,
        sender=MIRA,
        cc=(CHARLES,),
        subject="Spare levers for the first mill",
        text="Hello both,\n\nplease quote twelve spare warning levers for the first mill.\n\nMira\n",
        seen=False,
    ),
)


def seed(folders: Mapping[tuple[str, str], int], *, now: datetime) -> list[Incoming]:
    """Return each letter's copies, oldest first: the sender's in Sent, the others' in INBOX."""
    sent_at = {letter.key: now - timedelta(hours=letter.hours) for letter in LETTERS}
    copies = []
    for letter in sorted(LETTERS, key=lambda letter: -letter.hours):
        raw = _compose(letter, sent_at).as_bytes()
        owners = [
            (letter.sender.addr_spec, "Sent"),
            *((to.addr_spec, "INBOX") for to in letter.to + letter.cc),
        ]
        for address, name in owners:
            if (address, name) not in folders:
                continue
            read = name == "Sent" or (address == ADA.addr_spec and letter.seen)
            # A star or an answered mark belongs only to Ada's own copy.
            own = letter.flags if (address, name) == (ADA.addr_spec, "INBOX") else frozenset()
            copies.append(
                Incoming(
                    folder=folders[address, name],
                    raw=raw,
                    received=sent_at[letter.key],
                    flags=own | {"\\Seen"} if read else own,
                    recent=False,
                )
            )
    return copies


def _compose(letter: Letter, sent_at: Mapping[str, datetime]) -> EmailMessage:
    message = EmailMessage(policy=SMTP)
    message["From"] = letter.sender
    message["To"] = letter.to
    if letter.cc:
        message["Cc"] = letter.cc
    message["Subject"] = letter.subject
    message["Date"] = format_datetime(sent_at[letter.key])
    message["Message-ID"] = _message_id(letter.key)
    if letter.answers:
        message["In-Reply-To"] = _message_id(letter.answers[-1])
        message["References"] = " ".join(_message_id(key) for key in letter.answers)
    if letter.key == "newsletter":
        message["List-Unsubscribe"] = "<https://loomweekly.example/unsubscribe>"
        message.set_content(letter.text, subtype="html")
        return message
    message.set_content(letter.text)
    if letter.key == "zoe":
        message.add_alternative(
            "<p>Liebe Ada,</p><p>the <b>sketches</b> are ready, see below. "
            "Shall we meet in the café at ten?</p>"
            '<p>Zoë<br><a href="https://atelier-zoe.example/">atelier-zoe.example</a></p>',
            subtype="html",
        )
    if letter.key == "review":
        start = (sent_at[letter.key] + timedelta(days=3)).replace(hour=10, minute=0)
        event = INVITATION.format(
            stamp=_utc(sent_at[letter.key]), start=_utc(start), end=_utc(start + timedelta(hours=1))
        )
        message.add_alternative(event, subtype="calendar", params={"method": "REQUEST"})
    if letter.key == "accident":
        report = _pdf("Accident report 4471", "Van LV-207, canal bridge", "Policy IN-88-1204")
        message.add_attachment(
            report, maintype="application", subtype="pdf", filename="accident-report-4471.pdf"
        )
    return message


def _message_id(key: str) -> str:
    sender = next(letter.sender for letter in LETTERS if letter.key == key)
    return f"<seed.{key}@{sender.domain}>"


def _utc(when: datetime) -> str:
    return when.strftime("%Y%m%dT%H%M%SZ")


def _pdf(*lines: str) -> bytes:
    text = "BT /F1 14 Tf 72 760 Td 20 TL " + " ".join(f"({line}) Tj T*" for line in lines) + " ET"
    objects = (
        "<< /Type /Catalog /Pages 2 0 R >>",
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 4 0 R"
        " /Resources << /Font << /F1 5 0 R >> >> >>",
        f"<< /Length {len(text)} >>\nstream\n{text}\nendstream",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    )
    document, offsets = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        offsets.append(len(document))
        document += f"{number} 0 obj\n{body}\nendobj\n".encode()
    table = "".join(f"{offset:010d} 00000 n \n" for offset in offsets)
    end = (
        f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{len(document)}\n%%EOF\n"
    )
    return document + f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}{end}".encode()
