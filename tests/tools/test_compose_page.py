"""The form for a mail of one's own: its sending time, in the time zone of its author."""

from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.utils import timezone

from accounts.models import Mailbox
from approvals.models import PendingAction
from tests.conftest import Reviewer

pytestmark = pytest.mark.django_db
BERLIN = "Europe/Berlin"


def posted(reviewer: Reviewer, mailbox: Mailbox, **fields: str) -> Any:
    reviewer.client.cookies["zone"] = BERLIN
    page = reviewer.client.get("/compose/").content.decode()
    assert f'name="zone" value="{BERLIN}"' in page
    mail = {
        "mailbox": str(mailbox.pk),
        "to": "mira@northwind.example",
        "subject": "Later",
        "body": "Hello",
        "as": "mail",
    }
    token = reviewer.client.cookies["csrftoken"].value
    return reviewer.client.post("/compose/", {**mail, "csrfmiddlewaretoken": token, **fields})


def test_form_that_is_changed_after_back_is_another_mail(
    reviewer: Reviewer, mailbox: Mailbox
) -> None:
    key = "0" * 32
    first, same, other = (
        posted(reviewer, mailbox, key=key, body=body) for body in ("One", "One", "Two")
    )
    assert first.headers["Location"] == same.headers["Location"] != other.headers["Location"]
    assert PendingAction.objects.count() == 2


def at_nine(days: int) -> datetime:
    day = timezone.localdate() + timedelta(days=days)
    return datetime(day.year, day.month, day.day, 9, tzinfo=ZoneInfo(BERLIN))


@pytest.mark.parametrize(
    ("zone", "meant"),
    [(BERLIN, BERLIN), ("America/New_York", "America/New_York"), ("../etc", "UTC")],
)
def test_mail_leaves_at_the_time_of_the_zone_in_the_form(
    reviewer: Reviewer, mailbox: Mailbox, zone: str, meant: str
) -> None:
    typed = f"{at_nine(2):%Y-%m-%dT%H:%M}"

    answer = posted(reviewer, mailbox, send_at=typed, zone=zone)

    assert answer.status_code == 302
    action = PendingAction.objects.get()
    assert action.send_at == datetime.fromisoformat(typed).replace(tzinfo=ZoneInfo(meant))
    # Pages show it in the time zone of the reader, and name that time zone.
    seen = action.send_at.astimezone(ZoneInfo(BERLIN))
    assert f"{seen:%H:%M:%S %Z}, if approved" in " ".join(
        reviewer.page(str(action.pk)).content.decode().replace("</time>", "").split()
    )


@pytest.mark.parametrize(
    ("typed", "kind", "says"),
    [
        ("2020-01-01T09:00", "mail", "This time is in the past."),
        ("tomorrow", "mail", "Enter a valid date/time."),
        (2, "draft", "A draft has no send time."),
        (40, "mail", "is more than 30 days away"),
    ],
)
def test_impossible_time_is_refused_beside_its_field(
    reviewer: Reviewer, mailbox: Mailbox, typed: str | int, kind: str, says: str
) -> None:
    # Days from the moment of the test: the tests may have been collected on another day.
    send_at = typed if isinstance(typed, str) else f"{at_nine(typed):%Y-%m-%dT%H:%M}"
    answer = posted(reviewer, mailbox, zone=BERLIN, send_at=send_at, **{"as": kind})

    assert answer.status_code == 422
    assert says in answer.content.decode()
    assert send_at in answer.content.decode()
    assert not PendingAction.objects.exists()


def test_programs_get_times_in_utc_whatever_a_cookie_says(
    reviewer: Reviewer, mailbox: Mailbox, api: Any
) -> None:
    action_id = api.propose()
    api.client.cookies["zone"] = BERLIN
    assert api.get(f"/actions/{action_id}").json()["created_at"].endswith("Z")
