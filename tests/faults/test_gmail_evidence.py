"""Evidence at Gmail: a message that could not be read is neither ours nor somebody else's."""

import pytest

from accounts.models import Mailbox
from tests.faults.gmail_road import approved, drafts, look_again
from tests.support.people.gmail import ADA, gmail, letter, mailbox
from tests.support.servers.gmail import GmailServer
from tests.support.work import work
from tools.providers import provider_for
from tools.providers.base import Envelope, Handover
from tools.providers.errors import Unsupported

__all__ = ["approved", "gmail", "mailbox"]
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize(
    ("status", "reason"), [(401, "authError"), (403, "insufficientPermissions")]
)
@pytest.mark.usefixtures("approved")
def test_unreadable_sent_message_is_not_resent(
    gmail: GmailServer, status: int, reason: str
) -> None:
    gmail.drop("drafts.create", after=True)
    work()
    gmail._send(gmail.box(ADA), drafts(gmail)[0])
    gmail.fail("messages.get", status, reason, times=None)
    look_again()
    assert (len(gmail.ledger), gmail.count("drafts.create"), gmail.count("drafts.send")) == (
        1,
        1,
        0,
    )


def test_mail_without_a_copy_in_sent_is_refused_at_the_send(
    mailbox: Mailbox, gmail: GmailServer
) -> None:
    """Check an approval from before mailhub refused such a mail at the proposal."""
    envelope = Envelope(
        sender=ADA, recipients=("mira@northwind.example",), source=letter(), save_to_sent=False
    )
    wire: list[str] = []
    with pytest.raises(Unsupported):
        provider_for(mailbox).send(envelope, Handover(wire_started=lambda: wire.append("started")))
    assert (wire, gmail.calls, gmail.ledger) == ([], [], [])
