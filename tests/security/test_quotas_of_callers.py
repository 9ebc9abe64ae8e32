"""The limits of a token and a person: requests, proposals, uploads and the chat, counted for all
processes.
"""

from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from accounts.access import quotas, request_log
from accounts.models import Mailbox, QuotaUse, User
from approvals.models import PendingAction
from tests.conftest import HELLO, Api, make_api, problem_of
from tests.support.people.browser import browser
from tools.models import Upload

pytestmark = pytest.mark.django_db(transaction=True)
READ_STATEMENTS = 2  # the token, the mailbox; the log of requests is written later


def upload(api: Api, size: int) -> Any:
    file = SimpleUploadedFile("a.bin", b"x" * size)
    return Client().post(
        "/api/v1/attachments", {"file": file}, headers={"Authorization": f"Bearer {api.secret}"}
    )


def restart() -> None:
    """Act as another process, which does not have this one's memory."""
    quotas._slices.clear()


def test_requests_are_limited_across_processes(api: Api, settings: Any) -> None:
    settings.MAILHUB_REQUESTS_PER_MINUTE = 5
    for _ in range(5):
        restart()
        assert api.tool("list_mailboxes").status_code == 200
    restart()
    refused = api.tool("list_mailboxes")

    assert (refused.status_code, problem_of(refused)["code"]) == (429, "rate_limited")
    assert 1 <= int(refused["Retry-After"]) <= 60
    assert refused["RateLimit-Policy"] == '"requests";q=5;w=60'
    assert refused["RateLimit"].startswith('"requests";r=0;t=')


def test_every_call_with_a_token_counts(api: Api, settings: Any) -> None:
    settings.MAILHUB_REQUESTS_PER_MINUTE = 3
    assert api.get("/tools").status_code == 200
    assert api.get("/webhooks").status_code == 200
    assert api.get("/actions").status_code == 200
    assert api.get("/mailboxes").status_code == 429
    assert api.post("/tools/no_such_tool").status_code == 429


def test_many_tokens_do_not_multiply_a_person(alice: User, mailbox: Mailbox, settings: Any) -> None:
    settings.MAILHUB_REQUESTS_PER_MINUTE = 4
    codes = [
        make_api(alice, mailbox, name=f"agent {n}").tool("list_mailboxes").status_code
        for n in range(14)
    ]

    assert codes == [200] * 12 + [429] * 2


def test_answers_name_the_remaining_quota(api: Api) -> None:
    answer = api.tool("send_email", **{**HELLO, "confirm": True})

    assert answer["RateLimit-Policy"] == (
        '"requests";q=12000;w=60, "proposals";q=600;w=60, "stored";q=1048576000;qu="content-bytes";w=86400'
    )
    assert '"requests";r=11999;t=60' in answer["RateLimit"]
    assert '"proposals";r=599;t=60' in answer["RateLimit"]


def test_refused_call_names_the_remaining_quota_too(api: Api) -> None:
    assert '"requests"' in api.tool("read_email", message_id="none")["RateLimit"]
    assert "RateLimit" not in Api(secret="mh_unknown").tool("list_mailboxes")


def test_read_costs_no_extra_statement(api: Api, settings: Any) -> None:
    settings.MAILHUB_REQUEST_LOG_SECONDS = 30
    for _ in range(2):
        api.tool("list_emails")
    with CaptureQueriesContext(connection) as asked:
        for _ in range(20):
            assert api.tool("list_emails").status_code == 200
    request_log.WRITER.flush()

    assert len(asked) == 20 * READ_STATEMENTS, [query["sql"][:60] for query in list(asked)[:4]]


def test_proposals_are_counted_across_processes(api: Api, settings: Any) -> None:
    settings.MAILHUB_PROPOSALS_PER_MINUTE = 2
    api.propose(subject="one")
    restart()
    api.propose(subject="two")
    restart()
    assert (
        api.tool("send_email", **{**HELLO, "confirm": True, "subject": "three"}).status_code == 429
    )
    assert PendingAction.objects.count() == 2


def test_waiting_proposals_are_limited(
    api: Api, alice: User, mailbox: Mailbox, settings: Any
) -> None:
    settings.MAILHUB_PENDING_PROPOSALS = 2
    first = api.propose(subject="one")
    api.propose(subject="two")

    refused = api.tool("send_email", **{**HELLO, "confirm": True, "subject": "three"})
    assert (refused.status_code, problem_of(refused)["code"]) == (429, "rate_limited")
    assert PendingAction.objects.count() == 2
    assert make_api(alice, mailbox, name="another").propose(subject="of another")

    api.propose(subject="instead", replaces=first)
    api.post(
        f"/actions/{PendingAction.objects.get(status='pending', proposer_name='agent', replaces=None).pk}/cancel"
    )
    assert api.propose(subject="four")


def test_uploads_are_limited_in_number_and_bytes(api: Api, settings: Any) -> None:
    settings.MAILHUB_UPLOADS_PER_DAY = 2
    settings.MAILHUB_STORED_MEGABYTES_PER_DAY = 4
    assert upload(api, 10).status_code == 201
    assert upload(api, 10).status_code == 201
    assert upload(api, 10).status_code == 429
    assert Upload.objects.count() == 2

    settings.MAILHUB_UPLOADS_PER_DAY = 1000
    codes = [upload(api, 400_000).status_code for _ in range(12)]
    assert codes == [201] * 10 + [429] * 2
    # A small mail still fits.
    assert api.tool("send_email", **{**HELLO, "confirm": True}).status_code == 202


def test_too_large_upload_uses_up_no_quota(api: Api, settings: Any) -> None:
    settings.MAILHUB_UPLOADS_PER_DAY = 1
    assert upload(api, 4 * 1024 * 1024 + 1).status_code == 413
    assert upload(api, 10).status_code == 201


def test_bytes_of_proposals_count(api: Api, settings: Any) -> None:
    settings.MAILHUB_STORED_MEGABYTES_PER_DAY = 4
    handle = upload(api, 400_000).json()["handle"]
    mail = {**HELLO, "confirm": True, "attachments": [{"handle": handle}]}
    codes = [
        api.tool("send_email", **{**mail, "subject": str(number)}).status_code
        for number in range(9)
    ]

    assert codes == [202] * 6 + [429] * 3
    assert PendingAction.objects.count() == 6


def test_bytes_of_changed_drafts_count(
    api: Api, alice: User, mailbox: Mailbox, settings: Any
) -> None:
    settings.MAILHUB_STORED_MEGABYTES_PER_DAY = 4
    draft = make_api(alice, mailbox, name="another").tool("create_draft", **HELLO).json()["id"]
    handle = upload(api, 400_000).json()["handle"]
    change = {**HELLO, "draft_id": draft, "attachments": [{"handle": handle}]}
    codes = [
        api.tool("update_draft", **{**change, "subject": str(number)}).status_code
        for number in range(9)
    ]

    assert codes == [202] * 6 + [429] * 3
    assert PendingAction.objects.count() == 6


def test_bytes_of_edits_count_and_programs_leave_them_to_people(
    api: Api, alice: User, settings: Any
) -> None:
    settings.MAILHUB_STORED_MEGABYTES_PER_DAY = 1
    action = PendingAction.objects.get(pk=api.propose())
    assert upload(api, 1_000_000).status_code == 201  # nearly all that the token may store
    answers = []
    for number in range(4):
        action.refresh_from_db()
        shown = {"digest": action.current.digest, "revision": action.revision}
        file = SimpleUploadedFile(f"{number}.bin", bytes([number]) * 200_000)
        answers.append(
            browser(alice).post(f"/actions/{action.pk}/edit/", {**shown, "attachments": file})
        )

    assert [answer.status_code for answer in answers] == [302] * 3 + [429]
    assert "limit of stored bytes" in answers[-1].content.decode()
    action.refresh_from_db()
    assert action.revision == 4


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        ("MAILHUB_PROPOSALS_PER_MINUTE", "too many proposals"),
        ("MAILHUB_PENDING_PROPOSALS", "Too many of your proposals"),
    ],
)
def test_proposals_of_a_person_are_limited(
    alice: User, mailbox: Mailbox, settings: Any, limit: str, words: str
) -> None:
    setattr(settings, limit, 2)
    mail = {"mailbox": str(mailbox.pk), "to": "mira@northwind.example", "body": "Hello."}
    answers = [
        browser(alice).post("/compose/", {**mail, "subject": str(number)}) for number in range(3)
    ]

    assert [answer.status_code for answer in answers] == [302, 302, 429]
    assert words in answers[-1].content.decode()
    assert PendingAction.objects.count() == 2


def test_nothing_is_counted_for_a_stranger(mailbox: Mailbox) -> None:
    assert Api(secret="mh_unknown").tool("list_mailboxes").status_code == 401
    assert not QuotaUse.objects.exists()
