"""The same tests on PostgreSQL, where workers of every queue meet other locks and another clock."""

import pytest

from tests.approvals.queues.test_every_queue import (
    test_broker_restart_during_a_send_ends_no_worker,
    test_killing_only_the_parent_leaves_one_mail,
    test_lost_notification_costs_only_a_wait_for_a_sweep,
    test_mail_leaves_once_despite_many_notifications,
    test_sigterm_during_a_send_lets_it_finish,
)

__all__ = [
    "test_broker_restart_during_a_send_ends_no_worker",
    "test_killing_only_the_parent_leaves_one_mail",
    "test_lost_notification_costs_only_a_wait_for_a_sweep",
    "test_mail_leaves_once_despite_many_notifications",
    "test_sigterm_during_a_send_lets_it_finish",
]
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.postgres_only, pytest.mark.long]
