"""The answers that every provider must find before a reply leaves, and the mail that is no answer."""

from datetime import UTC, datetime
from email.message import EmailMessage
from email.mime.multipart import MIMEMultipart

import pytest

from tests.contract.conftest import GmailSide, GraphSide, ServerSide, Side
from tests.contract.test_whole_mailbox_contract import arrives, mail
from tests.support.servers.sandbox import ADA
from tools.sending.responses import find_arrived_answers
from tools.sending.surroundings import find_later
from tools.warnings import Later

LONG_AGO = datetime(2019, 1, 1, tzinfo=UTC)
ASKED, OWN, ANSWER = (f"<{number}@northwind.example>" for number in (1, 2, 3))
SHAPES = {
    "in-reply-to": {"In_Reply_To": ASKED},
    "references": {"References": ASKED},
    "other-subject": {"In_Reply_To": ASKED, "subject": "Something else"},
    "in-reply-to-beside-references": {"In_Reply_To": ASKED, "References": "<0@alps.example>"},
    "other-address": {"In_Reply_To": ASKED, "sender": "desk@alps.example"},
    "other-address-and-subject": {
        "In_Reply_To": ASKED,
        "sender": "desk@alps.example",
        "subject": "Something else",
    },
    "to-our-other-mail": {"In_Reply_To": OWN},
    "to-the-mail-before": {"References": "<0@northwind.example>"},
    "early-by-its-date": {"In_Reply_To": ASKED, "Date": "Mon, 02 Nov 2020 10:00:00 +0000"},
}
NO_ANSWERS = {
    "automatic": {"Auto_Submitted": "auto-replied (vacation)"},
    "vacation": {"Precedence": "auto_reply"},
    "mailer-daemon": {"sender": "Mail Delivery <MAILER-DAEMON@lovelace.example>"},
    "own-address": {"sender": ADA.upper()},
}


def letter(number: int, **headers: str) -> EmailMessage:
    date = headers.pop("Date", "")
    message = mail(number, **{"subject": "Offer", **headers})
    if date:
        message.replace_header("Date", date)
    return message


def look(side: Side, original: str, *before: str) -> str | None:
    later = find_later(side.ada, original, ASKED, before, own=ADA)
    return ", ".join(later.ids) if later else None


@pytest.fixture
def asked(side: Side) -> str:
    """Let a question arrive in a provider that splits conversations by subject; return its id."""
    if isinstance(side, GraphSide | GmailSide):
        side.splits_subjects()
    return arrives(side, letter(1))


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_of_answer_is_found(side: Side, asked: str, shape: str) -> None:
    side.deliver(
        letter(2, sender=ADA, subject="Re: Offer", References=ASKED).as_bytes(), folder="sent"
    )
    if shape == "to-the-mail-before":
        side.deliver(letter(0, message_id="<0@northwind.example>").as_bytes())
    assert look(side, asked, "<0@northwind.example>") is None

    arrives(side, letter(3, **{"subject": "Re: Offer", **SHAPES[shape]}))

    # Gmail and Graph search no headers, so nothing leads them to such a mail.
    is_hidden = shape == "other-address-and-subject" and isinstance(side, GraphSide | GmailSide)
    assert look(side, asked, "<0@northwind.example>") == (None if is_hidden else ANSWER)
    # But it has arrived, too.
    if ASKED in SHAPES[shape].values():
        arrived, is_whole = find_arrived_answers(side.ada, LONG_AGO, ASKED, own=ADA)
        assert ([each.message_id for each in arrived], is_whole) == ([ANSWER], True)


@pytest.mark.parametrize("shape", NO_ANSWERS)
def test_automatic_and_own_mail_is_no_answer(side: Side, asked: str, shape: str) -> None:
    arrives(side, letter(3, **{"References": ASKED, **NO_ANSWERS[shape]}))

    assert look(side, asked) is None


def test_bounce_is_no_answer(side: Side, asked: str) -> None:
    bounce = MIMEMultipart("report", report_type="delivery-status")
    for name, value in letter(3, References=ASKED, sender="mx@northwind.example").items():
        if name.lower() not in ("content-type", "content-transfer-encoding", "mime-version"):
            bounce[name] = value
    side.deliver(bounce.as_bytes())

    assert look(side, asked) is None


def test_mail_in_sent_is_own_mail_under_any_address(side: Side, asked: str) -> None:
    alias = letter(3, sender="sales@lovelace.example", References=ASKED)
    side.deliver(alias.as_bytes(), folder="sent")

    assert look(side, asked) is None


def test_answer_is_found_after_the_question_is_gone(side: Side, asked: str) -> None:
    """A question that was moved has another id, and a draft names its question only in headers."""
    assert look(side, "") is None

    arrives(side, letter(3, In_Reply_To=ASKED))

    assert look(side, "") == ANSWER


def test_any_mail_in_the_providers_conversation_counts(side: Side, asked: str) -> None:
    if not isinstance(side, GraphSide | GmailSide):
        pytest.skip("this provider has no conversations")

    side.deliver_beside(letter(3, subject="Something else").as_bytes(), ASKED)

    assert look(side, asked) == ANSWER


def test_answer_in_another_folder_is_found(side: Side, asked: str) -> None:
    if not isinstance(side, ServerSide):
        pytest.skip("the other servers have fixed folders, or no borders between them")
    side.make_folder("Customers")

    side.deliver(letter(3, In_Reply_To=ASKED).as_bytes(), folder="Customers")

    assert look(side, asked) == ANSWER


def test_thread_is_followed_until_nothing_new_is_found(side: Side) -> None:
    ids = [arrives(side, letter(1))]
    for number in range(2, 6):
        before = f"<{number - 1}@northwind.example>"
        header = {"In_Reply_To": before} if number % 2 else {"References": before}
        ids.append(arrives(side, letter(number, subject="Re: Offer", **header)))

    for start in (ids[0], ids[2], ids[-1]):
        thread = side.ada.read_thread(start, limit=10)
        assert [each.id for each in thread.messages] == ids
        assert thread.is_whole
    assert not side.ada.read_thread(ids[0], limit=2).is_whole


def test_cut_conversation_without_an_answer_is_reported(side: Side, asked: str) -> None:
    for number in range(10, 62):
        side.deliver(letter(number, sender=ADA, References=ASKED).as_bytes())

    assert find_later(side.ada, asked, ASKED, (), own=ADA) == Later(ids=(), is_whole=False)
