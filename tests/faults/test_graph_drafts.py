"""The draft at Microsoft 365 was changed, sent or lost: nothing but the approved mail leaves."""

import pytest
from django.db.models.functions import Now

from accounts.connect.connecting import connect_mailbox, disconnect
from accounts.infra import credentials
from accounts.models import Mailbox, User
from approvals.models import AuditEvent, PendingAction, Preparation
from approvals.worker import maintenance
from tests.conftest import Api, Reviewer
from tests.faults.graph_road import (
    Tamper,
    approve,
    approved,
    created,
    now_it_is_time,
    probe,
    secrets_of,
    throttled_with_a_draft,
)
from tests.support.people.outlook import graph, letter, mailbox, state
from tests.support.servers import graph_store
from tests.support.servers.graph import GraphServer
from tests.support.servers.graph_data import Accepted, Fault
from tests.support.servers.graph_store import Item, as_recipient
from tests.support.servers.sandbox import ADA, MIRA
from tests.support.work import work

__all__ = ["approved", "graph", "mailbox"]
pytestmark = pytest.mark.django_db
LONG = pytest.mark.long  # test_graph_content.py compares each part without a send


@pytest.mark.fault(37)
def test_draft_edited_by_the_owner_is_not_sent(approved: PendingAction, graph: GraphServer) -> None:
    draft = throttled_with_a_draft(graph)
    graph.store.patch(draft, {"subject": "Something else"})
    work()
    assert state(approved) == ("failed", "draft_changed")
    assert (len(graph.sends()), graph.ledger) == (1, [])


@pytest.mark.fault(37)
def test_draft_deleted_by_the_owner_is_not_sent(
    approved: PendingAction, graph: GraphServer
) -> None:
    draft = throttled_with_a_draft(graph)
    graph.store.move(ADA, draft, "deleteditems")
    work()
    assert state(approved) == ("failed", "draft_changed")
    assert (len(graph.sends()), graph.ledger) == (1, [])


@pytest.mark.fault(37)
@pytest.mark.parametrize("folder", ["sentitems", "outbox"])
def test_draft_that_its_owner_is_sending_is_unknown(
    approved: PendingAction, graph: GraphServer, folder: str
) -> None:
    draft = throttled_with_a_draft(graph)
    graph.store.move(ADA, draft, folder)  # in transit: already moved, and still a draft
    work()
    assert state(approved) == ("unknown", "draft_gone")
    graph.accept(ADA, draft, "by hand", save=True)
    probe()
    assert state(approved) == ("succeeded", None)
    assert (len(graph.sends()), len(graph.ledger)) == (1, 1)


@pytest.mark.fault(37)
def test_missing_draft_is_unknown_and_not_remade(
    approved: PendingAction, graph: GraphServer
) -> None:
    graph.store.of(ADA).pop(throttled_with_a_draft(graph).id)
    work()
    assert state(approved) == ("unknown", "draft_gone")
    for _ in range(5):
        probe()
        work()
    assert state(approved)[0] == "unknown"
    assert (len(graph.sends()), graph.ledger, created(graph)) == (1, [], 1)


@pytest.mark.fault(37)
def test_draft_sent_by_owner_is_found_in_sent(approved: PendingAction, graph: GraphServer) -> None:
    graph.accept(ADA, throttled_with_a_draft(graph), "by hand", save=True)
    work()
    probe()
    assert state(approved) == ("succeeded", None)
    assert (len(graph.sends()), len(graph.ledger)) == (1, 1)


def narrow(graph: GraphServer, mailbox: Mailbox, *rights: str) -> None:
    """Leave the mailbox only these permissions."""
    secrets = {**secrets_of(mailbox), "access_token": graph.token(ADA, *rights)}
    record = credentials.encrypt(secrets, mailbox_id=mailbox.pk)
    Mailbox.objects.update(scopes=rights, credentials=record)


@pytest.mark.fault(37)
def test_prepared_draft_without_the_right_to_look_is_unknown(
    approved: PendingAction, graph: GraphServer, mailbox: Mailbox
) -> None:
    graph.accept(ADA, throttled_with_a_draft(graph), "by hand", save=True)
    narrow(graph, mailbox, "Mail.Send")

    for _ in range(3):
        now_it_is_time()
        work()

    assert state(approved) == ("unknown", "draft_gone")
    assert (len(graph.sends()), len(graph.ledger)) == (1, 1)


@pytest.mark.fault(37)
def test_draft_sent_by_owner_is_no_second_mail_without_drafts(
    approved: PendingAction, graph: GraphServer, mailbox: Mailbox
) -> None:
    graph.accept(ADA, throttled_with_a_draft(graph), "by hand", save=True)
    narrow(graph, mailbox, "Mail.Read", "Mail.Send")

    work()
    probe()

    assert state(approved) == ("succeeded", None)
    assert (len(graph.sends()), len(graph.ledger)) == (1, 1)


@pytest.mark.fault(37)
@pytest.mark.parametrize("status", [None, 429, 401])
def test_refused_order_of_a_draft_that_is_gone_is_unknown(
    approved: PendingAction, graph: GraphServer, status: int | None
) -> None:
    """Check the first attempt: the owner presses Send just before the order is read."""

    def sent_just_before(action: str) -> Fault | None:
        if action != "send":
            return None
        graph.chooser = lambda action: None
        graph.accept(ADA, graph.drafts(ADA)[0], "by hand", save=True)
        return Fault(phase="answer", status=status) if status else None

    graph.chooser = sent_just_before
    work()
    assert state(approved) == ("unknown", "draft_gone")
    assert (approved.attempts.get().proof, len(graph.sends())) == ("", 1)
    probe()
    assert state(approved) == ("succeeded", None)
    assert len(graph.ledger) == 1


def test_refused_order_of_a_draft_that_is_there_is_proven(
    approved: PendingAction, graph: GraphServer
) -> None:
    graph.fault("answer", status=400, code="ErrorInvalidRecipients")
    work()
    assert state(approved) == ("failed", "invalid_recipient")
    assert (approved.attempts.get().proof, graph.ledger) == ("unsent", [])


def test_draft_sent_by_a_slow_first_attempt_is_found_in_sent(
    approved: PendingAction, graph: GraphServer
) -> None:
    throttled_with_a_draft(graph)

    def carried_out_late(action: str) -> None:
        if action == "send":
            graph.chooser = lambda action: None
            graph.accept(ADA, graph.drafts(ADA)[0], "send", save=True)

    graph.chooser = carried_out_late
    now_it_is_time()
    work()
    assert state(approved) == ("unknown", "draft_gone")
    probe()
    assert state(approved) == ("succeeded", None)
    assert [accepted.message_id for accepted in graph.ledger] == [approved.message_id]


def test_draft_the_owner_is_sending_survives_a_cancellation(
    approved: PendingAction, graph: GraphServer, api: Api
) -> None:
    draft = throttled_with_a_draft(graph)
    graph.store.move(ADA, draft, "sentitems")  # in transit: already moved, and still a draft
    assert api.post(f"/actions/{approved.pk}/cancel").json()["state"] == "cancelled"
    now_it_is_time()
    maintenance.tidy()
    assert draft.folder == "sentitems"


@pytest.mark.parametrize("folder", ["sentitems", "outbox"])
def test_draft_the_owner_was_sending_is_told_once_it_is_sent(
    approved: PendingAction, graph: GraphServer, api: Api, folder: str
) -> None:
    draft = throttled_with_a_draft(graph)
    graph.store.move(ADA, draft, folder)
    api.post(f"/actions/{approved.pk}/cancel")
    now_it_is_time()
    maintenance.tidy()
    graph.accept(ADA, draft, "by hand", save=True)
    now_it_is_time()
    maintenance.tidy()
    assert "also_sent_at" in api.get(f"/actions/{approved.pk}").json()
    assert not Preparation.objects.exists()


# A draft whose id nobody knows: the worker died, or the answer was lost, right after its creation


@pytest.fixture(params=["create", "createReply"])
def unconfirmed(
    api: Api, reviewer: Reviewer, graph: GraphServer, request: pytest.FixtureRequest
) -> PendingAction:
    if request.param == "create":
        action = approve(api, reviewer)
    else:
        graph.deliver(ADA, letter().as_bytes())
        original = api.tool("list_emails").json()["emails"][0]["id"]
        answer = api.tool("reply_email", message_id=original, comment="Yes.", confirm=True).json()
        assert reviewer.decide(answer["action"]["id"], "approve").status_code == 302
        action = PendingAction.objects.get(pk=answer["action"]["id"])
    graph.fault("drop_after_effect", on=request.param)
    work()
    assert (state(action)[0], len(graph.drafts(ADA))) == ("approved", 1)
    return action


def test_unconfirmed_draft_is_removed_before_another_is_made(
    unconfirmed: PendingAction, graph: GraphServer
) -> None:
    now_it_is_time()
    work()
    assert state(unconfirmed) == ("succeeded", None)
    assert (len(graph.ledger), graph.drafts(ADA)) == (1, [])


def test_unconfirmed_draft_sent_by_the_owner_is_not_repeated(
    unconfirmed: PendingAction, graph: GraphServer
) -> None:
    graph.accept(ADA, graph.drafts(ADA)[0], "by hand", save=True)
    now_it_is_time()
    work()
    assert state(unconfirmed) == ("unknown", "draft_gone")
    assert (graph.sends(), len(graph.ledger)) == ([], 1)


@pytest.mark.parametrize(
    "then",
    ["stays in Sent", "is filed elsewhere", "is thrown away", "is in the bin", "is on its way"],
)
def test_incomplete_draft_sent_by_the_owner_is_not_repeated(
    approved: PendingAction, graph: GraphServer, then: str
) -> None:
    graph.fault("answer", on="get")
    work()
    (draft,) = graph.drafts(ADA)
    graph.accept(ADA, draft, "by hand", save=True)
    match then:
        case "is filed elsewhere":
            graph.store.move(ADA, draft, "archive")
        case "is in the bin":
            graph.store.move(ADA, draft, "deleteditems")
        case "is thrown away":
            graph.store.of(ADA).pop(draft.id)
        case "is on its way":
            draft.shown["isDraft"] = True
    now_it_is_time()
    work()
    assert state(approved) == ("unknown", "draft_gone")
    assert (graph.sends(), len(graph.ledger)) == ([], 1)


@pytest.mark.parametrize("folder", ["outbox", "archive"])
def test_unconfirmed_draft_that_its_owner_is_sending_is_unknown(
    unconfirmed: PendingAction, graph: GraphServer, folder: str
) -> None:
    (draft,) = graph.drafts(ADA)
    graph.store.move(ADA, draft, folder)
    now_it_is_time()
    work()
    assert state(unconfirmed) == ("unknown", "draft_gone")
    graph.accept(ADA, draft, "by hand", save=True)
    probe()
    assert state(unconfirmed) == ("succeeded", None)
    assert (graph.sends(), len(graph.ledger)) == ([], 1)


def test_incomplete_draft_that_its_owner_is_sending_is_unknown(
    approved: PendingAction, graph: GraphServer
) -> None:
    graph.fault("answer", on="get")
    work()
    (draft,) = graph.drafts(ADA)
    graph.store.move(ADA, draft, "outbox")
    now_it_is_time()
    work()
    assert (state(approved), draft.folder) == (("unknown", "draft_gone"), "outbox")
    assert (graph.sends(), created(graph)) == ([], 1)


def test_incomplete_draft_sent_during_its_removal_is_unknown(
    approved: PendingAction, graph: GraphServer
) -> None:
    graph.fault("answer", on="get")
    work()
    looked: list[Item] = []

    def send_at_the_second_look(item: Item) -> None:
        looked.append(item)
        if len(looked) == 2:
            graph.accept(ADA, item, "by hand", save=True)

    graph.on_read = send_at_the_second_look
    now_it_is_time()
    work()
    assert state(approved) == ("unknown", "draft_gone")
    assert (graph.sends(), len(graph.ledger), created(graph)) == ([], 1, 1)


@pytest.mark.parametrize("calls", range(6))
@pytest.mark.parametrize("lost", ["its content", "its id"])
def test_unfinished_draft_sent_before_any_call_is_unknown(
    approved: PendingAction, graph: GraphServer, lost: str, calls: int
) -> None:
    if lost == "its id":
        graph.fault("drop_after_effect", on="create")
    else:
        graph.fault("answer", on="get")
    work()
    made: list[str] = []

    def send_by_hand(action: str) -> None:
        made.append(action)
        if len(made) == calls + 1:  # the next attempt looks at the draft and removes it
            graph.accept(ADA, graph.drafts(ADA)[0], "by hand", save=True)

    graph.chooser = send_by_hand
    now_it_is_time()
    work()

    assert state(approved) == ("unknown", "draft_gone")
    assert (graph.sends(), len(graph.ledger), created(graph)) == ([], 1, 1)


def test_draft_thrown_away_before_its_comparison_is_made_again(
    approved: PendingAction, graph: GraphServer
) -> None:
    graph.fault("answer", on="get")
    work()
    (draft,) = graph.drafts(ADA)
    graph.store.move(ADA, draft, "deleteditems")
    now_it_is_time()
    work()
    assert state(approved) == ("succeeded", None)
    assert (len(graph.ledger), created(graph)) == (1, 2)


def test_unconfirmed_draft_is_removed_if_nothing_leaves(
    unconfirmed: PendingAction, graph: GraphServer, api: Api
) -> None:
    own = graph.store.new(ADA, "drafts", {"subject": "The person's own"})
    api.post(f"/actions/{unconfirmed.pk}/cancel")
    now_it_is_time()
    maintenance.tidy()
    assert (graph.drafts(ADA), graph.ledger) == ([own], [])


def move(mailbox: Mailbox, graph: GraphServer, person: User, *, account: str) -> None:
    """Connect the mailbox to an account with nothing in it, as after a move to another tenant."""
    secrets = {**secrets_of(mailbox), "identity": {"oid": account, "tid": account}}
    disconnect(mailbox, person=person)
    connect_mailbox(
        owner=person, address=ADA, provider="microsoft", secrets=secrets, scopes=mailbox.scopes
    )


@pytest.mark.django_db(transaction=True)  # the mail goes back to a person after the commit
def test_draft_in_an_earlier_account_raises_no_doubt(
    approved: PendingAction, graph: GraphServer, mailbox: Mailbox, alice: User, reviewer: Reviewer
) -> None:
    draft = throttled_with_a_draft(graph)
    move(mailbox, graph, alice, account="new")
    graph.store.of(ADA).pop(draft.id)
    assert reviewer.decide(str(approved.pk), "approve").status_code == 302
    now_it_is_time()
    work()
    assert state(approved) == ("succeeded", None)
    assert (len(graph.ledger), created(graph)) == (1, 2)


@pytest.mark.django_db(transaction=True)  # the mail goes back to a person after the commit
def test_draft_in_an_earlier_account_is_left_alone(
    approved: PendingAction, graph: GraphServer, mailbox: Mailbox, alice: User, reviewer: Reviewer
) -> None:
    throttled_with_a_draft(graph)
    move(mailbox, graph, alice, account="new")
    assert reviewer.decide(str(approved.pk), "reject").status_code == 302
    now_it_is_time()
    hits = len(graph.hits)
    maintenance.tidy()
    assert (Preparation.objects.count(), graph.hits[hits:]) == (1, [])


@pytest.mark.django_db(transaction=True)  # the mail goes back to a person after the commit
def test_draft_sent_in_an_account_that_comes_back_is_known(
    api: Api, graph: GraphServer, mailbox: Mailbox, alice: User, reviewer: Reviewer
) -> None:
    move(mailbox, graph, alice, account="old")
    action = approve(api, reviewer)
    draft = throttled_with_a_draft(graph)
    move(mailbox, graph, alice, account="new")
    now_it_is_time()
    maintenance.tidy()
    move(mailbox, graph, alice, account="old")
    graph.accept(ADA, draft, "by hand", save=True)
    assert reviewer.decide(str(action.pk), "approve").status_code == 302
    now_it_is_time()
    work()
    assert (state(action), len(graph.ledger)) == (("unknown", "draft_gone"), 1)


def test_folders_of_another_account_are_asked_for_again(
    api: Api,
    graph: GraphServer,
    mailbox: Mailbox,
    alice: User,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def is_saved() -> bool:
        saved = api.tool("create_draft", to=[MIRA], subject="Offer", body="Ours.")
        return bool(saved.status_code == 200)

    assert is_saved()
    before = graph_store.folder_id
    monkeypatch.setattr(graph_store, "folder_id", lambda *of: before("another tenant", of[1]))
    move(mailbox, graph, alice, account="new")
    assert is_saved()


def one_more_bcc(item: Item) -> None:
    item.shown["bccRecipients"] = [
        *item.shown["bccRecipients"],
        as_recipient("spy@elsewhere.example"),
    ]


def another_recipient(item: Item) -> None:
    item.shown["toRecipients"] = [as_recipient("mira@n0rthwind.example")]


def another_file(item: Item) -> None:
    for file in item.files:
        file["contentBytes"] = "AAAA"


def another_text(item: Item) -> None:
    item.shown["body"]["content"] = item.shown["body"]["content"].replace("Thursday", "Friday")


def another_link(item: Item) -> None:
    item.shown["body"]["content"] = item.shown["body"]["content"].replace(
        "good.example", "evil.example"
    )


def another_sender(item: Item) -> None:
    item.shown["from"] = as_recipient("ceo@lovelace.example")


@pytest.mark.fault(38)
@pytest.mark.parametrize(
    ("tamper", "of", "what"),
    [
        pytest.param(another_sender, "create", "from", id="another-sender"),
        pytest.param(one_more_bcc, "create", "bcc", id="extra-bcc"),
        pytest.param(another_recipient, "create", "to", id="changed-recipient", marks=LONG),
        pytest.param(another_file, "attachments", "attachments", id="swapped-attachment"),
        pytest.param(another_text, "create", "body", id="changed-text", marks=LONG),
        pytest.param(another_link, "create", "body", id="changed-link", marks=LONG),
    ],
)
def test_draft_with_other_content_is_never_sent(
    api: Api, reviewer: Reviewer, graph: GraphServer, tamper: Tamper, of: str, what: str
) -> None:
    file = {"name": "a.pdf", "content_base64": "JVBERi0xLjQK"}
    body = {
        "body": '<p>Until Thursday, <a href="https://good.example/">here</a></p>',
        "body_type": "html",
    }
    action = approve(api, reviewer, attachments=[file], **body)
    graph.tamper = tamper
    graph.on_attach = tamper if of == "attachments" else graph.on_attach
    work()
    assert state(action) == ("failed", "readback_mismatch")
    assert what in (action.error or {})["detail"]
    assert (graph.sends(), graph.ledger) == ([], [])
    maintenance.tidy()
    assert graph.drafts(ADA) == []


def test_html_rewritten_without_a_change_of_meaning_is_sent(
    api: Api, reviewer: Reviewer, graph: GraphServer
) -> None:
    def rewritten(item: Item) -> None:
        content = item.shown["body"]["content"]
        item.shown["body"]["content"] = (
            f"<html><head><meta charset=utf-8></head><body>\r\n{content}\r\n</body></html>"
        )

    graph.tamper = rewritten
    action = approve(
        api, reviewer, body='<p>See <a href="https://good.example/">here</a></p>', body_type="html"
    )
    work()
    assert state(action) == ("succeeded", None)


TEXT = "Hello Mira,\n  a < b & c: https://good.example/?x=1&y=2\n\nAlice"


def test_text_shown_by_exchange_as_html_is_sent_as_text(
    api: Api, reviewer: Reviewer, graph: GraphServer
) -> None:
    graph.shows_html = True
    action = approve(api, reviewer, body=TEXT)
    work()
    assert state(action) == ("succeeded", None)
    assert graph.sent(ADA)[0].shown["body"] == {"contentType": "text", "content": f"{TEXT}\n"}


def misled(item: Item) -> None:
    item.shown["body"] = {
        "contentType": "html",
        "content": '<a href="https://evil.example/">Hello Mira.</a>',
    }
    item.changed()


@pytest.mark.fault(38)
@pytest.mark.parametrize("at_read", [0, 2])
def test_text_that_became_a_link_is_never_sent(
    api: Api, reviewer: Reviewer, graph: GraphServer, at_read: int
) -> None:
    reads: list[Item] = []

    def changed_between_the_looks(item: Item) -> None:
        reads.append(item)
        if len(reads) == at_read:
            misled(item)

    graph.shows_html, graph.on_read = True, changed_between_the_looks
    graph.tamper = graph.tamper if at_read else misled
    action = approve(api, reviewer, body="Hello Mira.")
    work()
    assert state(action) == ("failed", "readback_mismatch")
    assert len(reads) == 2
    assert (graph.sends(), graph.ledger) == ([], [])


# The copy in Sent


@pytest.mark.parametrize("drafts", [True, False])
def test_copy_that_differs_from_the_approved_mail_is_said(
    api: Api, reviewer: Reviewer, graph: GraphServer, mailbox: Mailbox, drafts: bool
) -> None:
    if not drafts:
        Mailbox.objects.update(scopes=["Mail.Read", "Mail.Send"])
    action = approve(api, reviewer)

    def changed(accepted: Accepted) -> None:
        graph.sent(ADA)[0].shown["toRecipients"].append(as_recipient("spy@evil.example"))

    graph.on_accept = changed
    work()
    maintenance.settle()

    assert (state(action), len(graph.ledger)) == (("succeeded", None), 1)
    assert api.get(f"/actions/{action.pk}").json()["differs_in_sent"] == ["to"]
    assert AuditEvent.objects.get(event="sent_differs").data == {"changed": ["to"]}
    page = reviewer.page(str(action.pk)).content.decode()
    assert "Sent, but not as approved" in page
    assert "not as approved</span>" in reviewer.client.get("/?tab=sent").content.decode()
    assert "The copy in Sent differs from what was approved:" in page


def test_copy_that_comes_late_is_compared_later(
    approved: PendingAction, graph: GraphServer
) -> None:
    graph.on_accept = lambda accepted: graph.store.move(ADA, graph.sent(ADA)[0], "archive")
    work()
    maintenance.settle()
    approved.refresh_from_db()
    assert (approved.settle_at is not None, approved.unsettled_at) == (True, None)
    (item,) = graph.store.in_folder(ADA, "archive")
    graph.store.move(ADA, item, "sentitems")
    PendingAction.objects.update(settle_at=Now())
    maintenance.settle()
    approved.refresh_from_db()
    assert (approved.settle_at, approved.differs_in_sent) == (None, None)
