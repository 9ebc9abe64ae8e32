"""A process with other keys than the database's does not start, and no page calls content removed."""

import base64
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from accounts.models import User
from approvals.audit import key_check
from approvals.models import KeyCheck, PendingAction
from approvals.worker import heartbeats
from tests.conftest import Api
from tests.support.people.browser import browser

pytestmark = pytest.mark.django_db(transaction=True)
OTHER = base64.b64encode(b"o" * 32).decode()


def sweep() -> None:
    call_command("maintain", skip_checks=True)


@pytest.mark.parametrize("noted", [True, False], ids=["noted", "from before the check"])
@pytest.mark.parametrize(
    ("setting", "value"), [("MAILHUB_ENCRYPTION_KEYS", [OTHER]), ("SECRET_KEY", "o" * 40)]
)
def test_nothing_starts_with_another_key(
    api: Api, settings: Any, setting: str, value: Any, noted: bool
) -> None:
    heartbeats.beat("somewhere:1")
    api.propose()
    if noted:
        sweep()
    right = getattr(settings, setting)

    setattr(settings, setting, value)
    for probe in ("/readyz", "/statusz"):
        answer = Client().get(probe)
        assert (answer.status_code, answer.json()["missing"]) == (503, ["keys"])
    for command in ("worker", "web", "maintain"):
        with pytest.raises(CommandError, match=setting):
            call_command(command, skip_checks=True)

    setattr(settings, setting, right)
    sweep()
    assert Client().get("/statusz").status_code == 200


def test_page_never_calls_content_removed_that_no_key_opens(
    api: Api, alice: User, settings: Any
) -> None:
    action_id = api.propose()
    settings.MAILHUB_ENCRYPTION_KEYS = [OTHER]
    page = browser(alice).get(f"/actions/{action_id}/").content.decode()
    assert "The content cannot be read" in page
    assert "The content was removed" not in page


def test_rotation_moves_the_check_and_lost_keys_are_accepted(api: Api, settings: Any) -> None:
    api.propose()
    sweep()
    settings.MAILHUB_ENCRYPTION_KEYS = [OTHER, *settings.MAILHUB_ENCRYPTION_KEYS]
    sweep()
    call_command("rotate_keys")
    settings.MAILHUB_ENCRYPTION_KEYS = [OTHER]
    sweep()

    settings.SECRET_KEY = "o" * 40
    call_command("rotate_keys")  # it has nothing to do with SECRET_KEY
    assert key_check.find_wrong() == ["SECRET_KEY"]
    settings.MAILHUB_ENCRYPTION_KEYS = [base64.b64encode(b"p" * 32).decode()]
    with pytest.raises(CommandError, match="No configured key opens"):
        call_command("rotate_keys", "--lost")
    sweep()
    assert KeyCheck.objects.count() == 2
    assert PendingAction.objects.get().status == "pending"
