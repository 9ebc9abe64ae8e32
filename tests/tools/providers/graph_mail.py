"""Ada's mailbox at Microsoft 365 with many mails, and another process that reads it."""

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import date
from typing import Any

import pytest

from accounts.infra import credentials
from accounts.models import Mailbox
from tests.support.people.outlook import letter
from tests.support.servers.graph import GraphServer
from tests.support.servers.sandbox import ADA
from tools.providers.graph import GraphProvider

TODAY = date(2026, 11, 22)


@pytest.fixture
def ada(mailbox: Mailbox) -> GraphProvider:
    return GraphProvider.for_mailbox(mailbox)


def fill(graph: GraphServer, count: int) -> None:
    for number in range(count):
        graph.deliver(ADA, letter(subject=f"Order {number}").as_bytes())


@pytest.fixture
def elsewhere(mailbox: Mailbox, settings: Any) -> Iterator[subprocess.Popen[str]]:
    """Yield another process of this machine that holds two of the mailbox's three concurrency
    slots.
    """
    program = (
        "import sys, django; django.setup(); from tools.providers.graph.slots import hold_slot\n"
        "with hold_slot(sys.argv[1]), hold_slot(sys.argv[1]): print('has them', flush=True); sys.stdin.read()"
    )
    home = {"MAILHUB_HOME": str(settings.MAILHUB_HOME), "DJANGO_SETTINGS_MODULE": "tests.settings"}
    with subprocess.Popen(
        [sys.executable, "-c", program, str(mailbox.pk)],
        env={**os.environ, **home},
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as running:
        assert running.stdout
        assert running.stdout.readline() == "has them\n"
        yield running
        running.kill()


def as_application(mailbox: Mailbox) -> Mailbox:
    secrets = credentials.decrypt(bytes(mailbox.credentials), mailbox_id=mailbox.pk)
    mailbox.credentials = credentials.encrypt(
        {**secrets, "application": True}, mailbox_id=mailbox.pk
    )
    mailbox.save()
    return mailbox
