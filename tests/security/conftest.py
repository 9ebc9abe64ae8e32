"""Fixtures of several tests of security."""

import pytest

from accounts.models import Mailbox, Role, User
from approvals.models import ApprovalPolicy
from tests.conftest import Api, make_api
from tests.security.people import member


@pytest.fixture
def staff(alice: User) -> User:
    alice.is_staff = True
    alice.save()
    return alice


@pytest.fixture
def dora(mailbox: Mailbox) -> User:
    """Return a colleague who may only look."""
    return member(mailbox, "Dora", Role.VIEWER)


@pytest.fixture
def by_pat(mailbox: Mailbox) -> Api:
    """Return the interface of a proposer, in a mailbox where two people must approve."""
    ApprovalPolicy.objects.create(mailbox=mailbox, approvals_needed=2)
    return make_api(member(mailbox, "Pat", Role.PROPOSER), mailbox)
