from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest

from accounts.models import User
from approvals.core.types import get_kind
from approvals.gate import decide
from approvals.models import PendingAction
from tests.approvals import kinds
from tests.approvals.kinds import Script
from tests.conftest import Api


@pytest.fixture
def script(settings: Any) -> Iterator[Script]:
    settings.MAILHUB_KINDS = {"mail.send": f"{kinds.__name__}.current"}
    get_kind.cache_clear()
    try:
        yield kinds.begin()
    finally:
        kinds.end()
        get_kind.cache_clear()


@pytest.fixture
def approved(api: Api, alice: User) -> Callable[..., PendingAction]:
    """Propose a mail and approve it, as Alice."""

    def make(**changes: Any) -> PendingAction:
        return approve(api.propose(**changes), alice)

    return make


def approve(action_id: str | UUID, person: User) -> PendingAction:
    action = PendingAction.objects.get(pk=action_id)
    return decide.approve(
        action_id=action.pk,
        person=person,
        digest=action.digest,
        revision=action.revision,
        restored=decide.mark_of_restore(action),
    )
