"""The same on PostgreSQL, where the workers of every queue meet other locks and another clock."""

import pytest

from tests.approvals.queues.test_every_queue import (
    test_row19_an_approved_mail_leaves_once_however_often_it_is_rung_for,
    test_row20_a_broker_that_restarts_in_the_middle_of_a_send_ends_no_worker,
    test_row20_a_lost_bell_or_a_broker_that_is_down_costs_only_the_wait_for_a_sweep,
    test_row25_killing_only_the_parent_leaves_one_mail_and_a_true_state,
    test_row28_sigterm_in_the_middle_of_a_send_lets_it_finish,
)

__all__ = [
    "test_row19_an_approved_mail_leaves_once_however_often_it_is_rung_for",
    "test_row20_a_broker_that_restarts_in_the_middle_of_a_send_ends_no_worker",
    "test_row20_a_lost_bell_or_a_broker_that_is_down_costs_only_the_wait_for_a_sweep",
    "test_row25_killing_only_the_parent_leaves_one_mail_and_a_true_state",
    "test_row28_sigterm_in_the_middle_of_a_send_lets_it_finish",
]
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.postgres_only, pytest.mark.long]
