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


def test_probes_answer_without_a_token(mailhub: Mailhub) -> None:
    assert request(f"{mailhub.url}/healthz").json() == {"status": "ok"}
    ready = request(f"{mailhub.url}/readyz")
    assert (ready.status, ready.json()["status"]) == (200, "ok")


def test_preview_answers_200_and_stores_nothing(mailhub: Mailhub) -> None:
    before = mailhub.rest("GET", "/actions").json()
    answer = mailhub.rest(
        "POST", "/tools/send_email", {"to": [MIRA], "subject": some_subject(), "body": "Hello."}
    )
    assert (answer.status, answer.json()["status"]) == (200, "preview")
    assert answer.json()["preview"]["to"] == [MIRA]
    assert mailhub.rest("GET", "/actions").json() == before


def test_proposal_links_to_its_status_and_review_page(mailhub: Mailhub) -> None:
    mail = {"to": [MIRA], "subject": some_subject(), "body": "Hello.", "confirm": True}
    answer = mailhub.rest("POST", "/tools/send_email", mail)
    action = answer.json()["action"]
    assert (answer.status, answer.json()["status"], action["state"]) == (202, "pending", "pending")
    assert mailhub.rest("GET", answer.headers["Location"]).json() == action
    assert int(answer.headers["Retry-After"]) > 0
    assert action["review_url"].startswith(f"{mailhub.url}/actions/{action['id']}")
    assert mailhub.person().get(action["review_url"]).status == 200


def test_same_key_gives_same_action_or_refuses_other_body(mailhub: Mailhub) -> None:
    mail = {"to": [MIRA], "subject": some_subject(), "body": "Hello.", "confirm": True}
    key = uuid.uuid4().hex
    first = mailhub.rest("POST", "/tools/send_email", mail, Idempotency_Key=key)
    second = mailhub.rest("POST", "/tools/send_email", mail, Idempotency_Key=key)
    assert (first.status, second.status) == (202, 202)
    assert "Idempotency-Replayed" not in first.headers
    assert second.headers["Idempotency-Replayed"] == "true"
    assert second.json()["action"] == first.json()["action"]

    other = mailhub.rest(
        "POST", "/tools/send_email", mail | {"body": "Goodbye."}, Idempotency_Key=key
    )
    assert (other.status, other.json()["code"]) == (422, "idempotency_mismatch")
    assert mailhub.action(first.json()["action"]["id"]) == first.json()["action"]


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
