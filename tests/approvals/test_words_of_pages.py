"""Pages say what is counted, empty, needed and recorded in words that a person knows."""

from datetime import UTC, datetime
from uuid import uuid4

import pytest

from accounts.infra.time_zones import offered_zones
from accounts.models import Mailbox, User
from approvals.audit.log import details_of
from approvals.audit.words import GROUPS, WORDS
from approvals.models import AuditEvent
from tests.support.people.browser import browser

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("tab", "words"),
    [("unknown", "the answer of the mail server was lost"), ("failed", "no longer retries")],
)
def test_empty_state_says_what_it_would_mean(
    alice: User, mailbox: Mailbox, tab: str, words: str
) -> None:
    assert words in browser(alice).get(f"/?tab={tab}").content.decode()


def test_zones_to_choose_are_places() -> None:
    names = offered_zones()
    assert {"UTC", "Europe/Berlin", "Asia/Shanghai", "America/Argentina/Salta"} <= set(names)
    assert not {"Factory", "localtime", "EST5EDT", "posixrules"} & set(names)
    assert not [name for name in names if name.startswith("Etc/")]
    assert "Etc/GMT+10" in offered_zones("Etc/GMT+10")
    assert "/etc/passwd" not in offered_zones("/etc/passwd")


def test_zone_of_the_browser_is_the_default(alice: User, mailbox: Mailbox) -> None:
    window = browser(alice)
    window.cookies["zone"] = "Asia/Tokyo"
    for path in (f"/mailboxes/{mailbox.pk}/rules/", "/notifications/"):
        page = window.get(path).content.decode()
        assert '<option value="Asia/Tokyo" selected>' in page, path


def test_days_of_rules_that_nobody_set_are_all_checked(alice: User, mailbox: Mailbox) -> None:
    window = browser(alice)
    path = f"/mailboxes/{mailbox.pk}/rules/"
    form = window.get(path).context["form"]
    assert len(form["open_days"].value()) == 7
    given = {name: form[name].value() for name in form.fields}
    given = {name: value for name, value in given.items() if value not in (None, False)}
    window.post(path, given | {"allowed": "", "refused": "", "confirmed_domains": ""})
    assert "Mail may leave at any hour." in window.get(f"/mailboxes/{mailbox.pk}/").content.decode()


def test_audit_page_leaves_out_what_only_a_verifier_needs() -> None:
    event = AuditEvent(
        event="outcome_accepted",
        chain_id=uuid4(),
        at=datetime.now(UTC),
        data={"fence": 1, "evidence": "answer", "said": "c" * 64, "revision": 2},
    )
    assert details_of(event, {}) == [("revision", "2")]


def test_events_are_in_groups_once_each() -> None:
    grouped = [event for _, group in GROUPS for event in group]
    assert sorted(grouped) == sorted(WORDS)


def test_audit_form_shows_groups(alice: User, mailbox: Mailbox) -> None:
    page = browser(alice).get("/audit/").content.decode()
    assert '<optgroup label="Mailboxes and rules">' in page
    assert browser(alice).get("/audit/?event=approved").status_code == 200


def test_password_confirms_on_the_first_page(alice: User) -> None:
    alice.set_password("kelp oar nine tundra")
    alice.save()
    window = browser(alice)
    session = window.session
    session["signed_in_at"] = 0
    session.save()
    asked = window.get("/tokens/new/")["Location"]
    assert 'name="password"' in window.get(asked).content.decode()
    answer = window.post(
        "/account/confirm/", {"password": "kelp oar nine tundra", "next": "/tokens/new/"}
    )
    assert answer["Location"] == "/tokens/new/"
    assert window.get("/tokens/new/").status_code == 200
