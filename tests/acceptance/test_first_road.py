"""The send path over everything that `manage.py run` starts: web server, worker, mail server."""

import uuid
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

import pytest

from tests.support.processes.mailhub import Mailhub
from tests.support.processes.person import Person, request
from tests.support.processes.programs import until

pytestmark = pytest.mark.process
MIRA, ADA = "mira@northwind.example", "ada@lovelace.example"


def some_subject() -> str:
    return f"Thursday {uuid.uuid4().hex}"


def test_approved_mail_arrives_once_and_others_wait(mailhub: Mailhub) -> None:
    waiting, wanted, asked_at = some_subject(), some_subject(), datetime.now(UTC)
    neighbour = mailhub.propose(waiting)
    action = mailhub.propose(wanted, cc=["charles@lovelace.example"])
    assert mailhub.mail(MIRA, "INBOX", wanted) == []

    decided = mailhub.person().submit(action["review_url"], "approve")
    assert decided.status == 302

    ended = mailhub.ended(action["id"])
    assert ended["state"] == "succeeded"
    assert ended["receipt"]["recipient_count"] == 2
    assert ended["receipt"]["provider"] == "imap"
    sent_at = datetime.fromisoformat(ended["receipt"]["at"])
    assert asked_at - timedelta(seconds=1) < sent_at <= datetime.now(UTC)
    (arrived,) = mailhub.mail(MIRA, "INBOX", wanted)
    (copied,) = until(lambda: mailhub.mail(ADA, "Sent", wanted), say=mailhub.log)
    assert arrived["Message-ID"] == copied["Message-ID"]
    assert arrived.get_content() == copied.get_content() == "Hello Mira.\r\n"

    # The worker has made a sweep: the mail that nobody approved is still here.
    assert mailhub.action(neighbour["id"])["state"] == "pending"
    assert mailhub.mail(MIRA, "INBOX", waiting) == []


def test_approval_without_csrf_or_session_changes_nothing(mailhub: Mailhub) -> None:
    action = mailhub.propose(some_subject())
    refused = mailhub.person().submit(action["review_url"], "approve", csrfmiddlewaretoken="x" * 64)
    assert refused.status == 403
    token = {"Authorization": f"Bearer {mailhub.sandbox['api_token']}"}
    assert request(f"{action['review_url']}approve/", "POST", body=b"", headers=token).status == 403
    assert mailhub.action(action["id"])["state"] == "pending"


def test_one_time_link_signs_in_once_and_get_keeps_it(mailhub: Mailhub) -> None:
    link = mailhub.new_link()
    for _ in range(2):
        assert request(link).status == 200
    mailhub.person(link)
    assert Person(mailhub.url).get(link).status == 410


def test_no_content_or_secret_is_in_any_process_log(mailhub: Mailhub) -> None:
    canaries = {
        name: f"canary{name}{uuid.uuid4().hex}"
        for name in ("subject", "body", "path", "token", "field")
    }
    link = mailhub.new_link()
    person = mailhub.person(link)
    sent = mailhub.propose(canaries["subject"], body=canaries["body"])
    # The mail server does not know this recipient, and its answer repeats the address.
    failed = mailhub.propose(canaries["subject"], to=[f"{canaries['path']}@northwind.example"])
    for action in (sent, failed):
        assert person.submit(action["review_url"], "approve").status == 302
    assert mailhub.ended(sent["id"])["state"] == "succeeded"
    assert mailhub.ended(failed["id"])["error"]["code"] == "invalid_recipient"
    until(lambda: mailhub.mail(ADA, "Sent", canaries["subject"]))

    mail = {"to": [canaries["field"]], "subject": canaries["subject"], canaries["field"]: 1}
    assert mailhub.rest("POST", "/tools/send_email", mail).status == 422
    assert mailhub.rest("POST", "/tools/send_email", canaries["body"].encode()).status == 400
    assert mailhub.rest("POST", f"/tools/{canaries['path']}", {}).status == 404
    assert mailhub.rest("GET", f"/actions/{canaries['path']}").status == 404
    assert (
        mailhub.rest("GET", "/actions", Authorization=f"Bearer mh_{canaries['token']}").status
        == 401
    )
    assert person.get(f"/{canaries['path']}/?q={canaries['field']}").status == 404
    assert person.get(f"/sign-in/{canaries['token']}/").status == 410

    log = mailhub.log()
    assert f"action={sent['id']}" in log, "the worker logs here"
    assert "route=api/v1/tools/send_email" in log, "the web server logs here"
    sandbox = mailhub.sandbox
    secrets = [sandbox["api_token"], sandbox["imap"]["password"], urlsplit(link).path.split("/")[2]]
    secrets.append(urlsplit(sandbox["sign_in_url"]).path.split("/")[2])
    addresses = [MIRA, ADA, "northwind.example", "lovelace.example"]
    found = [text for text in (*canaries.values(), *secrets, *addresses) if text in log]
    assert found == [], [line for line in log.splitlines() if any(text in line for text in found)]
    assert "Traceback" not in log
    assert mailhub.stdout().count(sandbox["sign_in_url"]) == 1
