"""The database fails in the COMMIT of a proposal: the client's retry, with its key, finds or
creates the one action.
"""

import json
from pathlib import Path

import pytest
from django.db import connection

from accounts.connect.imap import ImapAccess
from accounts.infra import credentials
from accounts.models import Mailbox
from approvals.models import AuditEvent, IdempotencyRecord, PendingAction
from tests.conftest import HELLO, Api
from tests.support.processes.person import request
from tests.support.processes.programs import Program, this_test, until
from tests.support.servers.cutting_proxy import CuttingProxy
from tests.support.servers.sandbox import plain
from tests.support.servers.services import free_port

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.postgres_only]


@pytest.mark.fault(7)
@pytest.mark.parametrize(
    "committed", [False, True], ids=["before the server has it", "after the server has it"]
)
def test_retry_after_lost_commit_makes_one_action(
    api: Api, mailbox: Mailbox, tmp_path: Path, committed: bool
) -> None:
    database = connection.settings_dict
    port = free_port()
    # A proposal looks for known recipients in the mailbox. If the mailbox cannot be reached, the
    # proposal still succeeds.
    nowhere = ImapAccess(
        imap=plain(free_port()), smtp=plain(free_port()), username=mailbox.address, password="none"
    )
    mailbox.credentials = credentials.encrypt(nowhere.as_secrets(), mailbox_id=mailbox.pk)
    mailbox.provider = Mailbox.Provider.IMAP
    mailbox.save(update_fields=["credentials", "provider"])
    headers = {
        "Authorization": f"Bearer {api.secret}",
        "Idempotency-Key": "k",
        "Content-Type": "application/json",
    }
    url, body = f"http://127.0.0.1:{port}", json.dumps(HELLO | {"confirm": True}).encode()
    with (
        CuttingProxy((database["HOST"], int(database["PORT"])), forward=committed) as proxy,
        Program(tmp_path, "web", "--port", str(port), **this_test(database_port=proxy.port)) as web,
    ):

        def answers() -> bool:
            try:
                return request(f"{url}/healthz").status == 200
            except OSError:
                return False

        until(answers, say=web.log)
        # Not the COMMIT that counts the request.
        proxy.arm(after=b'INSERT INTO "approvals_pendingaction"')
        lost = request(f"{url}/api/v1/tools/send_email", "POST", body=body, headers=headers)
        assert (lost.status >= 500, lost.headers["Content-Type"]) == (
            True,
            "application/problem+json",
        )
        assert proxy.cuts == 1
        until(lambda: PendingAction.objects.count() == committed)

        again = request(f"{url}/api/v1/tools/send_email", "POST", body=body, headers=headers)
        assert again.status == 202, again.text
        assert again.headers.get("Idempotency-Replayed") == ("true" if committed else None)

    assert again.json()["action"]["id"] == str(PendingAction.objects.get().pk)
    assert IdempotencyRecord.objects.count() == 1
    assert AuditEvent.objects.filter(event="created").count() == 1
