import pytest

from accounts.models import Mailbox, User
from tests.conftest import Api, make_api
from tests.support.servers.m365 import m365, npm_server

__all__ = ["m365", "npm_server"]


@pytest.fixture
def runner(alice: User, mailbox: Mailbox) -> Api:
    User.objects.filter(pk=alice.pk).update(is_staff=True)
    return make_api(alice, mailbox, name="runner", scopes=["m365:run", "mail:propose"])
