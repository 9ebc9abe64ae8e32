"""Tokens on their page: shown once, rotated without losing their name, revoked; and the log of
their requests.
"""

from datetime import timedelta
from importlib import import_module
from typing import Any
from uuid import UUID

import pytest
from django.apps import apps
from django.core.management import CommandError, call_command
from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from accounts.access import request_log
from accounts.models import ApiToken, Mailbox, RequestRecord, User
from approvals.models import AuditEvent, PendingAction
from approvals.models.audit import PEOPLE
from approvals.worker import maintenance
from tests.conftest import HELLO, Api, Reviewer, make_api, problem_of
from tests.support.people.browser import browser
from tests.support.servers.memory import MemoryServer
from tests.support.work import work

pytestmark = pytest.mark.django_db(transaction=True)


def made(person: User, mailbox: Mailbox, **changes: Any) -> Any:
    form = {
        "name": "desk",
        "scopes": ["mail:read", "mail:propose"],
        "mailboxes": [str(mailbox.pk)],
        "days": "30",
    }
    return browser(person).post("/tokens/new/", {**form, **changes})


def test_token_is_shown_once_with_the_lines_to_paste(alice: User, mailbox: Mailbox) -> None:
    shown = made(alice, mailbox)
    secret = shown.context["secret"]
    text = shown.content.decode()
    assert f'id="secret" readonly value="{secret}"' in text
    for line in ("/mcp", f"&quot;MAILHUB_TOKEN&quot;: &quot;{secret}", "curl -s http"):
        assert line in text
    assert shown["Cache-Control"] == "max-age=0, no-cache, no-store, must-revalidate, private"
    token = ApiToken.objects.get()
    assert token.expires_at is not None
    assert Api(secret=secret).tool("list_mailboxes").status_code == 200
    for_managers, for_staff = AuditEvent.objects.filter(event="token_created").order_by("-chain")
    assert for_managers.mailbox == mailbox
    assert for_staff.chain_id == PEOPLE
    assert for_managers.data["scopes"] == for_staff.data["scopes"] == ["mail:propose", "mail:read"]
    assert for_staff.data["network"] == "127.0.0.0/24"
    assert for_staff.data["mailboxes"] == [str(mailbox.pk)]

    listed = browser(alice).get("/tokens/").content.decode()
    assert secret not in listed
    for words in (
        "read and search mail",
        "propose mail that a person must approve",
        mailbox.address,
        "Last used:",
    ):
        assert words in listed


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"name": ""}, "required"), ({"scopes": []}, "required"), ({"scopes": ["mail:approve"]}, "mail:approve"),
        ({"mailboxes": []}, "required"), ({"days": "9999"}, "9999"),
        ({"name": "agent"}, "has or had this name"), ({"name": " chat "}, "This is the name of the chat"),
    ],
)  # fmt: skip
def test_senseless_token_is_refused_in_words(
    api: Api, alice: User, mailbox: Mailbox, wrong: dict[str, Any], words: str
) -> None:
    answer = made(alice, mailbox, **wrong)
    assert words in answer.content.decode()
    assert ApiToken.objects.count() == 1


def test_person_has_at_most_100_tokens(alice: User, mailbox: Mailbox) -> None:
    mine = [ApiToken(user=alice, name=f"t{n}", digest=f"{n}", hint="") for n in range(100)]
    ApiToken.objects.bulk_create(mine)
    assert "You have 100 tokens" in made(alice, mailbox).content.decode()
    ApiToken.objects.filter(name="t7").update(revoked_at=timezone.now())
    assert "mh_" in made(alice, mailbox).content.decode()


@pytest.mark.parametrize(
    "odd", ["--days=0", "--days=-1", "--days=999999999", "--name=", "--name=a\nb"]
)
def test_odd_token_by_command_is_refused(alice: User, mailbox: Mailbox, odd: str) -> None:
    """0 days made a token that is valid for ever."""
    named = [
        "--user",
        alice.email,
        "--name=a",
        "--scopes=mail:read",
        "--mailboxes",
        mailbox.address,
    ]
    with pytest.raises(CommandError):
        call_command("create_token", *named, odd)
    assert not ApiToken.objects.exists()


@pytest.mark.both
def test_new_token_cannot_take_the_name_of_a_revoked_one(
    api: Api, alice: User, mailbox: Mailbox
) -> None:
    browser(alice).post(f"/tokens/{ApiToken.objects.get().pk}/revoke/")
    assert "has or had this name" in made(alice, mailbox, name="agent").content.decode()
    named = ["--user", alice.email, "--name", "agent", "--scopes", "mail:read"]
    with pytest.raises(CommandError, match="has or had that name"):
        call_command("create_token", *named, "--mailboxes", mailbox.address)
    assert ApiToken.objects.count() == 1


@pytest.mark.both
def test_no_token_has_the_name_of_the_chat(
    api: Api, alice: User, mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither from the command or any other code, nor after an upgrade."""
    named = ["--user", alice.email, "--name", "chat", "--scopes", "mail:read"]
    with pytest.raises(CommandError, match="This is the name of the chat"):
        call_command("create_token", *named, "--mailboxes", mailbox.address)
    with pytest.raises(IntegrityError), transaction.atomic():
        ApiToken.objects.update(name="chat")

    step = import_module("accounts.migrations.0020_name_of_the_chat")
    (check,) = (each for each in ApiToken._meta.constraints if "named_chat" in each.name)
    others = [each for each in ApiToken._meta.constraints if each is not check]
    with monkeypatch.context() as earlier, connection.schema_editor() as editor:
        earlier.setattr(ApiToken._meta, "constraints", others)  # SQLite makes the table of them
        editor.remove_constraint(ApiToken, check)
    try:
        ApiToken.objects.update(name="chat")
        step.rename_tokens(apps, None)
    finally:
        with connection.schema_editor() as editor:
            editor.add_constraint(ApiToken, check)
    renamed = ApiToken.objects.get()
    assert renamed.name == f"chat {renamed.pk}"


@pytest.mark.both
def test_upgrade_keeps_a_shared_name_for_the_token_in_use(
    alice: User, charlie: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = import_module("accounts.migrations.0016_names_of_tokens")
    (once,) = (each for each in ApiToken._meta.constraints if "name_once" in each.name)
    others = [each for each in ApiToken._meta.constraints if each is not once]
    with monkeypatch.context() as earlier, connection.schema_editor() as editor:
        earlier.setattr(ApiToken._meta, "constraints", others)  # SQLite makes the table of them
        editor.remove_constraint(ApiToken, once)
    try:
        in_use, _ = ApiToken.issue(user=alice, name="agent", scopes=[], mailboxes=[])
        foreign, _ = ApiToken.issue(user=charlie, name="agent", scopes=[], mailboxes=[])
        for _ in range(2):
            revoked, _ = ApiToken.issue(user=alice, name="agent", scopes=[], mailboxes=[])
            ApiToken.objects.filter(pk=revoked.pk).update(revoked_at=timezone.now())
        step.rename_earlier(apps, None)
    finally:
        with connection.schema_editor() as editor:
            editor.add_constraint(ApiToken, once)
    same = ApiToken.objects.filter(name="agent").values_list("pk", flat=True)
    assert set(same) == {in_use.pk, foreign.pk}


@pytest.mark.parametrize("staff", [False, True])
def test_only_staff_give_a_token_microsoft_365(alice: User, mailbox: Mailbox, staff: bool) -> None:
    User.objects.filter(pk=alice.pk).update(is_staff=staff)

    offered = browser(alice).get("/tokens/new/").content.decode()
    answer = made(alice, mailbox, scopes=["mail:read", "m365:run"]).content.decode()

    assert ('value="m365:run"' in offered) is staff
    assert ("m365:run is not one of the available choices" in answer) is not staff
    assert ApiToken.objects.exists() is staff
    named = ["--user", alice.email, "--name", "second", "--scopes", "m365:run"]
    if staff:
        call_command("create_token", *named, "--mailboxes", mailbox.address)
    else:
        with pytest.raises(CommandError, match="Only a token of staff can have m365:run"):
            call_command("create_token", *named, "--mailboxes", mailbox.address)
    assert ApiToken.objects.count() == 2 * staff


def test_token_for_a_foreign_mailbox_is_refused(
    charlie: User, foreign_mailbox: Mailbox, mailbox: Mailbox
) -> None:
    answer = made(charlie, foreign_mailbox, mailboxes=[str(mailbox.pk)])
    assert "is not one of the available choices" in answer.content.decode()
    assert not ApiToken.objects.exists()


def test_new_secret_keeps_name_and_actions_of_a_token(
    api: Api, alice: User, reviewer: Reviewer, server: MemoryServer
) -> None:
    action_id = api.propose(key="once")
    reviewer.decide(action_id, "approve")
    token = ApiToken.objects.get()

    shown = browser(alice).post(f"/tokens/{token.pk}/rotate/")
    renewed = Api(secret=shown.context["secret"])

    assert api.tool("list_mailboxes").status_code == 401
    again = renewed.tool("send_email", key="once", **{**HELLO, "confirm": True})
    assert again.json()["action"]["id"] == action_id
    assert again["Idempotency-Replayed"] == "true"
    work()
    assert len(server.ledger) == 1


def test_new_secret_is_valid_for_as_long_again(alice: User, mailbox: Mailbox) -> None:
    token, _ = ApiToken.issue(
        user=alice,
        name="short",
        scopes=["mail:read"],
        mailboxes=[mailbox],
        lifetime=timedelta(days=7),
    )
    ApiToken.objects.update(
        created_at=timezone.now() - timedelta(days=8), expires_at=timezone.now() - timedelta(days=1)
    )

    shown = browser(alice).post(f"/tokens/{token.pk}/rotate/")

    assert Api(secret=shown.context["secret"]).tool("list_mailboxes").status_code == 200


def test_revoked_token_ends_at_once_and_voids_approvals(
    api: Api, alice: User, reviewer: Reviewer, server: MemoryServer
) -> None:
    reviewer.decide(api.propose(), "approve")
    page = f"/tokens/{ApiToken.objects.get().pk}"
    browser(alice, fresh=False).post(f"{page}/revoke/")
    assert browser(alice).post(f"{page}/rotate/").status_code == 404

    work()
    maintenance.sweep()

    assert api.tool("list_mailboxes").status_code == 401
    assert (PendingAction.objects.get().status, server.ledger) == ("pending", [])
    assert AuditEvent.objects.filter(event="token_revoked").exists()


@pytest.mark.parametrize("verb", ["rotate", "revoke"])
def test_foreign_token_does_not_exist(api: Api, charlie: User, verb: str) -> None:
    assert browser(charlie).post(f"/tokens/{ApiToken.objects.get().pk}/{verb}/").status_code == 404
    assert api.tool("list_mailboxes").status_code == 200


def test_log_names_call_and_outcome_and_no_content(api: Api, alice: User, charlie: User) -> None:
    api.tool("send_email", key="k", **{**HELLO, "subject": "canary", "confirm": True})
    replay = api.post(
        "/tools/send_email",
        {**HELLO, "subject": "canary", "confirm": True},
        **{"Idempotency-Key": "k"},
    )
    api.tool("send_email", to=["canary"])
    api.tool("canary_tool")

    rows = list(RequestRecord.objects.order_by("id"))
    assert [(row.tool, row.outcome, row.replayed) for row in rows] == [
        ("send_email", "ok", False),
        ("send_email", "ok", True),
        ("send_email", "invalid_input", False),
        ("unknown", "not_found", False),
    ]
    assert rows[0].action_id == rows[1].action_id == UUID(replay.json()["action"]["id"])
    assert rows[1].request_id == replay["X-Request-ID"]
    window = browser(alice)
    everything = window.get("/tokens/requests/").content.decode()
    assert "canary" not in everything
    assert everything.count(">replayed</span>") == 1
    for query, count in (
        ("replayed=yes", 1),
        ("outcome=invalid_input", 1),
        ("tool=send_email", 3),
        ("token=agent", 4),
        (f"request_id={rows[0].request_id}", 1),
        ("outcome=nothing", 0),
    ):
        assert len(window.get(f"/tokens/requests/?{query}").context["page"].object_list) == count, (
            query
        )
    assert "Nothing matches" in window.get("/tokens/requests/?tool=nothing").content.decode()
    assert len(browser(charlie).get("/tokens/requests/").context["page"].object_list) == 0


def test_same_rights_again_leave_no_event(api: Api, alice: User, mailbox: Mailbox) -> None:
    token = ApiToken.objects.get()
    form = {"scopes": token.scopes, "mailboxes": [str(mailbox.pk)]}
    assert browser(alice).post(f"/tokens/{token.pk}/narrow/", form).status_code == 302
    token.refresh_from_db()
    assert token.generation == 0
    assert not AuditEvent.objects.filter(event="token_narrowed").exists()


def test_log_of_millions_of_requests_costs_one_page(api: Api, alice: User) -> None:
    token = ApiToken.objects.get()
    row = {"token": token, "surface": "rest", "outcome": "ok", "duration_ms": 1}
    tools = ["older", "older", *["newer"] * 10_000]
    RequestRecord.objects.bulk_create(RequestRecord(tool=tool, **row) for tool in tools)
    window = browser(alice)
    for query, count in (("", 10_000), ("tool=older", 0)):
        answer = window.get(f"/tokens/requests/?{query}")
        assert answer.context["page"].paginator.count == count
        assert "Only the newest 10,000 requests" in answer.content.decode()


def test_client_cannot_write_its_request_name_into_the_log(api: Api) -> None:
    answer = api.get("/mailboxes", **{"X-Request-ID": "canary"})
    assert RequestRecord.objects.get().request_id == answer["X-Request-ID"] != "canary"


def test_old_requests_are_forgotten(api: Api) -> None:
    api.get("/mailboxes")
    api.get("/mailboxes")
    RequestRecord.objects.filter(pk=RequestRecord.objects.first().pk).update(  # type: ignore[union-attr]
        at=timezone.now() - timedelta(days=91)
    )
    request_log.forget_old()
    assert RequestRecord.objects.count() == 1


def test_token_proposing_too_often_is_throttled(
    alice: User, mailbox: Mailbox, settings: Any
) -> None:
    settings.MAILHUB_PROPOSALS_PER_MINUTE = 2
    api = make_api(alice, mailbox, name="eager")
    for _ in range(3):  # nothing is proposed
        assert api.tool("send_email", **HELLO, confirm=False).status_code == 200
    api.propose(subject="one")
    api.propose(subject="two")

    answer = api.tool("send_email", **{**HELLO, "confirm": True})

    assert (answer.status_code, problem_of(answer)["code"]) == (429, "rate_limited")
    assert 1 <= int(answer["Retry-After"]) <= 60
    assert problem_of(answer)["retry_after"] == int(answer["Retry-After"])
    assert PendingAction.objects.count() == 2
    assert api.tool("list_mailboxes").status_code == 200
    assert make_api(alice, mailbox, name="another").propose()
