"""The steps on the page Welcome, and what is done of them."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from accounts.models import Mailbox, Membership, Role, User
from mailhub.sandbox.state import SANDBOX, TOKEN_NAME
from tests.conftest import make_api

pytestmark = pytest.mark.django_db


def count_done(window: Client) -> int:
    return window.get("/welcome/").content.decode().count('class="tag ok"')


def test_step_is_done_when_a_program_and_a_colleague_have_come(
    alice: User, bob: User, mailbox: Mailbox, settings: Any, tmp_path: Path
) -> None:
    Membership.objects.filter(user=bob).delete()
    settings.MAILHUB_HOME = tmp_path
    settings.MAILHUB_LOOPBACK_SERVERS = {SANDBOX}
    sandbox = make_api(alice, mailbox, name=TOKEN_NAME)
    (tmp_path / "sandbox.json").write_text(
        json.dumps({"user": alice.email, "mailbox": mailbox.address, "api_token": sandbox.secret})
    )
    alice.set_unusable_password()
    alice.save()
    window = Client()
    window.force_login(alice)
    assert count_done(window) == 0

    sandbox.propose()
    assert count_done(window) == 1  # the line of the step before is no program of the person

    make_api(alice, mailbox, name="mine").tool("list_mailboxes")
    assert count_done(window) == 2

    Membership.objects.create(mailbox=mailbox, user=bob, role=Role.APPROVER)
    assert count_done(window) == 2
    other = Mailbox.objects.create(address="second@lovelace.example")
    Membership.objects.create(mailbox=other, user=alice, role=Role.MANAGER)
    assert count_done(window) == 3
