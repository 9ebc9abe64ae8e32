"""Mail that arrives after a sent one: every provider finds it, and knows answers from reports."""

from datetime import UTC, datetime, timedelta
from email.message import EmailMessage

import pytest

from approvals.core.types import Failure, Response
from tests.contract.conftest import GmailSide, GraphSide, Side
from tests.contract.test_whole_mailbox_contract import mail
from tests.support.reports import report
from tests.support.servers.sandbox import ADA
from tools.sending.responses import find_answer, find_responses

SINCE = datetime(2001, 1, 1, tzinfo=UTC)
SENT = "<sent@lovelace.example>"
MIRA, BEN = "mira@northwind.example", "ben@northwind.example"
ANSWERS = {
    "in-reply-to": {"In_Reply_To": SENT},
    "references": {"References": f"<0@northwind.example> {SENT}"},
    "other-subject": {"In_Reply_To": SENT, "subject": "Something else"},
    "other-address": {"In_Reply_To": SENT, "sender": "Desk <desk@alps.example>"},
}
AUTOMATIC = {
    "automatic": {"Auto_Submitted": "auto-replied (vacation)"},
    "vacation": {"Precedence": "auto_reply"},
}


def responses(side: Side) -> tuple[Response, ...]:
    return find_responses(side.ada, SINCE, own=ADA).responses


def answer(**headers: str) -> EmailMessage:
    return mail(3, **{"subject": "Re: Offer", **headers})


@pytest.fixture
def sent(side: Side) -> None:
    if isinstance(side, GraphSide | GmailSide):
        side.splits_subjects()
    own = mail(1, sender=ADA, to=MIRA, subject="Offer", message_id=SENT)
    side.deliver(own.as_bytes(), folder="sent")


@pytest.mark.usefixtures("sent")
@pytest.mark.parametrize("shape", ANSWERS)
def test_answer_of_every_shape_arrives(side: Side, shape: str) -> None:
    side.deliver(answer(**ANSWERS[shape]).as_bytes())

    (found,) = responses(side)

    assert (found.sort, SENT in found.names) == ("answer", True)
    assert found.by == (MIRA if shape != "other-address" else "desk@alps.example")
    later = find_answer(side.ada, SENT, own=ADA)
    assert later is not None
    assert later.by == found.by


@pytest.mark.usefixtures("sent")
@pytest.mark.parametrize("shape", AUTOMATIC)
def test_automatic_reply_is_named_and_no_answer(side: Side, shape: str) -> None:
    side.deliver(answer(In_Reply_To=SENT, **AUTOMATIC[shape]).as_bytes())

    (found,) = responses(side)

    assert (found.sort, found.by) == ("automatic", MIRA)
    assert find_answer(side.ada, SENT, own=ADA) is None


@pytest.mark.usefixtures("sent")
def test_own_mail_and_other_mail_is_no_response(side: Side) -> None:
    side.deliver(answer(sender=ADA.upper(), In_Reply_To=SENT).as_bytes())
    side.deliver(
        mail(4, sender="sales@lovelace.example", References=SENT).as_bytes(), folder="sent"
    )
    side.deliver(mail(5).as_bytes())

    assert responses(side) == ()
    assert find_answer(side.ada, SENT, own=ADA) is None


@pytest.mark.usefixtures("sent")
def test_report_names_each_recipient_who_did_not_get_it(side: Side) -> None:
    side.deliver(report(SENT, BEN, delayed=MIRA))

    (found,) = responses(side)

    assert (found.sort, found.names) == ("returned", (SENT,))
    reason = "550 No such user here"
    assert found.failures == (Failure(address=BEN, status="5.1.1", reason=reason),)


@pytest.mark.usefixtures("sent")
def test_report_without_the_headers_is_matched_by_its_own(side: Side) -> None:
    side.deliver(report("", BEN, References=f"<0@alps.example> {SENT}"))

    (found,) = responses(side)

    assert found.names == (SENT,)


@pytest.mark.usefixtures("sent")
def test_report_about_a_delay_is_no_return(side: Side) -> None:
    side.deliver(report(SENT, delayed=MIRA))

    assert responses(side) == ()


def test_more_mail_than_one_look_takes_is_read_by_the_next(side: Side) -> None:
    for number in range(1, 4):
        side.deliver(mail(number).as_bytes())

    part = side.ada.read_arrivals(SINCE, limit=2)

    assert ([each.message_id for each in part.messages], part.is_whole) == (
        ["<1@northwind.example>", "<2@northwind.example>"],
        False,
    )
    assert side.ada.read_arrivals(SINCE, limit=3).is_whole
    assert side.ada.read_arrivals(datetime.now(UTC) + timedelta(hours=1), limit=3).messages == ()
