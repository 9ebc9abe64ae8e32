"""The outcome of an attempt for each error of a provider, and the status of its mailbox."""

import json
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.db import InterfaceError, connection
from django.utils import timezone

from accounts.models import Mailbox
from approvals.core.types import BEFORE_WIRE, ApprovedAction, Outcome
from tests.support.servers.memory import MemoryProvider, MemoryServer, Stored
from tools.providers import provider_for
from tools.providers.base import Envelope, Handover, Receipt
from tools.providers.errors import (
    Busy,
    NotAuthorized,
    NotFound,
    NotPermitted,
    NotSent,
    OutcomeUnknown,
    ProviderError,
    Refused,
    TokenRefused,
    Unavailable,
    Unsupported,
)
from tools.sending import command_runs as runs
from tools.sending.held_drafts import ChangeDraft
from tools.sending.kinds import SendMail

pytestmark = pytest.mark.django_db
STORED = json.loads((Path(__file__).parent / "payloads.json").read_text())["send"]["payload"]
SOURCE = b"From: alice@lovelace.example\r\nMessage-ID: <1@lovelace.example>\r\n\r\nHello.\r\n"
ERRORS: list[ProviderError] = []


class Failing(MemoryProvider):
    """A provider whose next send fails with the error that a test has put down."""

    def send(self, envelope: Envelope, handover: Handover) -> Receipt:
        raise ERRORS.pop()


class FailingOnTheWire(Failing):
    def send(self, envelope: Envelope, handover: Handover) -> Receipt:
        handover.start_wire()
        return super().send(envelope, handover)


def approved(mailbox: Mailbox) -> ApprovedAction:
    return ApprovedAction(
        id=uuid.UUID(int=1),
        kind=STORED["kind"],
        mailbox=mailbox,
        payload={**STORED, "mailbox": str(mailbox.pk)},
        digest="0" * 64,
        message_id=STORED["message_id"],
        proposed_at=timezone.now(),
        wire_started=lambda order=None: None,
        blob=lambda sha256: SOURCE,
        keep=lambda notes: None,
    )


def never(code: str, **more: Any) -> Outcome:
    return Outcome(verdict="refused", proof=BEFORE_WIRE, code=code, detail="No.", **more)


def later(code: str, **more: Any) -> Outcome:
    return Outcome(verdict="not_sent", proof=BEFORE_WIRE, code=code, **more)


# Error of the provider; outcome of the attempt; status of a mailbox that was active.
OUTCOMES: list[tuple[ProviderError, Outcome, str]] = [
    (Unavailable("unreachable"), later("unreachable"), "error"),
    (Unavailable("smtp_451", retry_after=9), later("smtp_451", retry_after=9), "error"),
    (Unavailable("smtp_421", pauses=True), later("smtp_421", pauses_mailbox=True), "active"),
    (
        Unavailable("rate_limited", "Wait.", retry_after=9, pauses=True),
        later("rate_limited", detail="Wait.", retry_after=9, pauses_mailbox=True),
        "active",
    ),
    (Busy("busy", retry_after=2), later("busy", retry_after=2), "active"),
    (TokenRefused("auth_error", "Again."), later("auth_error", detail="Again."), "active"),
    (NotSent("whatever"), later("whatever"), "error"),
    (
        NotAuthorized("login_refused", "No."),
        later("auth_error", detail="No.", required_scope="memory.send"),
        "needs_reauth",
    ),
    (
        NotPermitted("Mail.Send", "No."),
        never("auth_error", required_scope="Mail.Send"),
        "active",
    ),
    (Refused("too_large", "No."), never("too_large"), "active"),
    (NotFound("No."), never("not_found"), "active"),
    (Unsupported("refused", "No."), never("refused"), "active"),
    (OutcomeUnknown("answer_lost", "?"), Outcome(verdict="unknown", code="answer_lost", detail="?"), "active"),
]  # fmt: skip


@pytest.mark.fault(33, 34, 35, 41)
def test_class_of_an_error_decides_the_outcome_and_the_mailbox(
    mailbox: Mailbox, settings: Any
) -> None:
    settings.MAILHUB_PROVIDERS = {
        **settings.MAILHUB_PROVIDERS,
        "memory": f"{__name__}.{Failing.__name__}",
    }
    wrong = {}
    for error, outcome, status in OUTCOMES:
        Mailbox.objects.update(status="active")
        mailbox.refresh_from_db()
        ERRORS.append(error)
        found = SendMail().execute(approved(mailbox)), Mailbox.objects.get().status
        if found != (outcome, status):
            wrong[repr(error)] = found
    assert wrong == {}


@pytest.mark.parametrize("error", [each for each, _, _ in OUTCOMES], ids=repr)
def test_error_on_the_wire_without_a_proof_is_unknown(
    mailbox: Mailbox, settings: Any, error: ProviderError
) -> None:
    failing = f"{__name__}.{FailingOnTheWire.__name__}"
    settings.MAILHUB_PROVIDERS = {**settings.MAILHUB_PROVIDERS, "memory": failing}
    error.proof = None  # type: ignore[attr-defined]
    ERRORS.append(error)
    outcome = SendMail().execute(approved(mailbox))
    assert (outcome.verdict, outcome.proof) == ("unknown", None)


@pytest.mark.django_db(transaction=True)
def test_lost_database_connection_leaves_an_acceptance(
    mailbox: Mailbox, server: MemoryServer
) -> None:
    drafts = server.folder(mailbox.address, "drafts")
    drafts.append(Stored(source=SOURCE, flags={"read"}))
    provider = provider_for(mailbox)
    (card,) = provider.list_messages(folder="drafts", unread=None, limit=1, page_token=None).cards
    named = {"id": card.id, "sha256": provider.read_draft(card.id).etag}
    mailbox.status = Mailbox.Status.ERROR
    sent = approved(mailbox)

    def lost(execute: Any, sql: str, *more: Any) -> Any:
        if sql.startswith("SELECT"):
            return execute(sql, *more)
        raise InterfaceError("the connection is closed")

    with connection.execute_wrapper(lost):
        outcomes = [
            SendMail().execute(sent),
            ChangeDraft().execute(replace(sent, payload={"draft": named, "change": "delete"})),
        ]
        runs.record_approved(sent.id, "m365 status", output="", outcome="ok", duration_ms=1)
    assert [outcome.verdict for outcome in outcomes] == ["accepted", "accepted"]


def test_every_class_of_error_is_in_the_table() -> None:
    def below(kind: type[ProviderError]) -> set[type[ProviderError]]:
        return {kind}.union(*map(below, kind.__subclasses__()))

    ours = {kind for kind in below(ProviderError) if kind.__module__ == NotSent.__module__}
    assert {type(error) for error, _, _ in OUTCOMES} == ours - {ProviderError}
