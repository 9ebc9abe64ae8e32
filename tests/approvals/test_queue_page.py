"""The queue in a browser without scripts: its rows, its pages and its forms."""

import json
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from accounts.models import Mailbox, Membership, Role, User
from approvals.gate import decide
from approvals.models import PendingAction
from tests.approvals.review_pages import filled, seal_of, text_of
from tests.conftest import Api, Reviewer, make_api, make_mailbox
from tests.support.people.browser import set_rules
from tests.support.plans import plan_of
from tests.support.servers.memory import MemoryServer

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.goal("P9")
def test_queue_page_uses_an_index_and_constant_queries(
    mailbox: Mailbox,
    foreign_mailbox: Mailbox,
    alice: User,
    charlie: User,
    reviewer: Reviewer,
    server: MemoryServer,
) -> None:
    second = make_mailbox("second@lovelace.example", server, alice)
    filled(mailbox, alice, 10)
    reviewer.client.get("/")
    few = {}
    for address in ("/", "/?tab=sent", "/?q=Number+5"):
        with CaptureQueriesContext(connection) as queries:
            reviewer.client.get(address)
        few[address] = len(queries)
    assert few["/?q=Number+5"] <= few["/"] + 1  # a search reads the rows of its window again
    filled(second, alice, 60)
    filled(foreign_mailbox, charlie, 300)
    for address in few:
        with CaptureQueriesContext(connection) as many:
            shown = reviewer.client.get(address)
        assert shown.status_code == 200
        assert len(many) <= few[address], [query["sql"] for query in many]
        assert not any("payload" in query["sql"] or "OFFSET" in query["sql"] for query in many)
        for query in many:
            if not query["sql"].startswith("SELECT"):
                continue
            plan = plan_of(query["sql"])
            whole = re.search(
                r"SCAN approvals_(pendingaction|revision)\b(?! USING (COVERING )?INDEX)|"
                r"Seq Scan on approvals_(pendingaction|revision)",
                plan,
            )
            assert not whole, (query["sql"], plan)


def test_pages_follow_each_other_and_a_search_names_its_reach(
    mailbox: Mailbox, alice: User, reviewer: Reviewer
) -> None:
    filled(mailbox, alice, 60)
    first = text_of(reviewer.client.get("/"))
    following = re.search(r'href="([^"]+)"\s+rel="next"', first)
    assert following
    second = text_of(reviewer.client.get(following[1].replace("&amp;", "&")))
    titles = (
        re.findall(r"<bdi>(Number \d+)</bdi></a>", first),
        re.findall(r"<bdi>(Number \d+)</bdi></a>", second),
    )
    assert [len(each) for each in titles] == [30, 30]
    assert not set(titles[0]) & set(titles[1])
    for words, expected in (
        ("p7@", 1),
        ("to:p59", 1),
        ("from:agent Number", 30),
        ("from:nobody", 0),
        ('"Number 5"', 11),
    ):
        found = text_of(reviewer.client.get("/", {"q": words}))
        assert len(re.findall(r'<li\s+id="row-', found)) == expected, words
    assert "Nothing matches" in text_of(reviewer.client.get("/", {"q": "nobody"}))
    assert reviewer.client.get("/?cursor=elsewhere").status_code == 302


def test_chosen_mails_are_approved_in_groups(api: Api, reviewer: Reviewer) -> None:
    alike = [api.propose(subject=name) for name in ("One", "Two")]
    other = api.propose(
        subject="Three",
        to=["bob@lovelace.example"],
        attachments=[{"name": "notes.txt", "text": "Hello"}],
        send_at=(timezone.now() + timedelta(days=3)).isoformat(),
    )
    risky = api.propose(subject="Four", body="My card is 4111 1111 1111 1111.")

    def items(ids: list[str]) -> list[str]:
        return [f"{each}:{seal_of(each)['digest']}:1" for each in ids]

    reviewer.client.get("/")
    for each in (*alike, other, risky):
        reviewer.look(each)
    token = {"csrfmiddlewaretoken": reviewer.client.cookies["csrftoken"].value}
    for ids in ([*alike, other], [risky], []):
        forced = reviewer.client.post("/bulk/approve/", {"item": items(ids), **token})
        assert forced.status_code == 409
    assert PendingAction.objects.filter(status="pending").count() == 4

    page = text_of(reviewer.client.post("/bulk/", {"item": items([risky, *alike, other]), **token}))

    forms = [
        {name: re.findall(rf'name="{name}" value="([^"]+)"', form) for name in ("item", "kept")}
        for form in re.findall(r"<form[^>]*bulk-approve.*?</form>", page, re.DOTALL)
    ]
    assert [form["item"] for form in forms] == [items(alike), items([other])]
    assert forms[0]["kept"] == items([other, risky])
    assert "Decide about mail with a serious warning" in page
    assert page.count("1 file not opened") == page.count(", if approved") == 1

    decide.reject(action_id=PendingAction.objects.get(pk=alike[1]).pk, person=reviewer.user)
    done = reviewer.client.post("/bulk/approve/", {**forms[0], **token})
    assert done.status_code == 200
    assert f'value="{items([other])[0]}"' in text_of(done)
    states = [PendingAction.objects.get(pk=each).status for each in (*alike, other, risky)]
    assert states == ["approved", "rejected", "pending", "pending"]


def test_interrupted_bulk_approval_says_what_it_did(api: Api, reviewer: Reviewer) -> None:
    ids = [api.propose(subject=name) for name in ("One", "Two", "Three", "Four")]
    for each in ids:
        reviewer.look(each)
    items = [f"{each}:{seal_of(each)['digest']}:1" for each in ids]
    token = {"csrfmiddlewaretoken": reviewer.client.cookies["csrftoken"].value}
    decided = []

    def goes_away(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
        decided.extend(["one"] * sql.startswith('INSERT INTO "approvals_decision"'))
        if len(decided) > 1:
            raise OperationalError
        return execute(sql, *rest)

    with connection.execute_wrapper(goes_away):
        answer = reviewer.client.post("/bulk/approve/", {"item": items, **token})
    states = [PendingAction.objects.get(pk=each).status for each in ids]
    assert (answer.status_code, states) == (500, ["approved", "pending", "pending", "pending"])
    told = re.findall(
        r'<bdi>(\w+)</bdi></a>\s*<p>\s*<span class="tag \w+">([\w ]+)<', text_of(answer)
    )
    assert told == [
        ("One", "approved"),
        ("Two", "unclear"),
        ("Three", "not approved"),
        ("Four", "not approved"),
    ]


def test_updated_rows_are_those_of_the_page(api: Api, reviewer: Reviewer) -> None:
    """Check that an unchanged row has the same text, because the page swaps rows that differ."""
    api.propose()
    page = text_of(reviewer.client.get("/"))
    told = json.loads(reviewer.client.get("/live/changes/?since=0").content)["rows"][0]["html"]

    def bare(html: str) -> str:
        return re.sub(r"\s+", " ", re.sub(r"<time.*?</time>", "", html, flags=re.DOTALL)).strip()

    assert bare(told) in bare(page)


def test_thousand_mailboxes_of_one_person_are_one_page(
    reviewer: Reviewer, api: Api, mailbox: Mailbox
) -> None:
    """Both databases limit the number of parts of a statement, which once was one a mailbox."""
    api.propose()
    others = Mailbox.objects.bulk_create(
        Mailbox(address=f"box{number}@lovelace.example", provider="memory", credentials=b"")
        for number in range(1000)
    )
    Membership.objects.bulk_create(
        Membership(mailbox=each, user=reviewer.user, role=Role.APPROVER) for each in others
    )

    for tab in ("pending", "leaving", "rejected"):
        page = reviewer.client.get(f"/?tab={tab}&mailbox=")
        assert page.status_code == 200
        assert page.content.count(b"@lovelace.example</option>") == 1001
    chosen = reviewer.client.get(f"/?mailbox={mailbox.pk}").content.decode()
    assert f'<option value="{mailbox.pk}" selected>{mailbox.address}</option>' in chosen
    assert chosen.count('id="row-') == 1


def test_row_shows_text_and_never_markup(
    mailbox: Mailbox, reviewer: Reviewer, server: MemoryServer
) -> None:
    marked = {name: f"<i>{name}</i> & %(name)s {{}}" for name in ("subject", "body", "reason")}
    make_api(reviewer.user, mailbox, name="<i>agent</i>").propose(**marked)
    Mailbox.objects.filter(pk=mailbox.pk).update(address="<i>mailbox</i>")
    # With two mailboxes, each row names its own.
    make_mailbox("other@lovelace.example", server, reviewer.user)

    page = reviewer.client.get("/").content.decode()
    (row,) = json.loads(reviewer.client.get("/live/changes/?since=0").content)["rows"]
    for html in (page, row["html"]):
        assert "<i>" not in html
        for shown in ("subject", "body", "mailbox"):
            assert f"&lt;i&gt;{shown}&lt;/i&gt;" in html, shown
        assert "&lt;i&gt;subject&lt;/i&gt; &amp; %(name)s {}" in html


@pytest.mark.parametrize("why", ["approved", "proposed", "edited", "managers only"])
def test_mail_that_waits_for_others_has_its_own_list(
    api: Api, alice: User, bob: User, mailbox: Mailbox, why: str
) -> None:
    rules = {"approver_role": "manager"} if why == "managers only" else {"approvals_needed": 2}
    set_rules(alice, mailbox, **{"self_approval": False} if why == "edited" else rules)
    person = Reviewer.signed_in(alice if why == "proposed" else bob)
    carol = User.objects.create_user("carol@lovelace.example")
    Membership.objects.create(mailbox=mailbox, user=carol, role=Role.MANAGER)
    action = api.propose()
    if why == "approved":
        assert person.decide(action, "approve").status_code == 302
    if why == "edited":
        assert person.decide(action, "edit", body="Friday.").status_code == 302

    def lists(reviewer: Reviewer) -> list[bool]:
        return [
            f'id="row-{action}"' in text_of(reviewer.client.get(f"/?tab={tab}"))
            for tab in ("pending", "others")
        ]

    assert lists(person) == [False, True]
    other = Reviewer.signed_in(carol)
    assert lists(other) == [True, False]
    told = person.client.get("/live/changes/", {"since": "0", "shown": action}).json()
    assert [row["here"] for row in told["rows"]] == [False]
    assert (told["counts"]["pending"], told["counts"]["others"]) == (0, 1)
    other.decide(action, "reject")
    assert lists(person) == [False, False]
