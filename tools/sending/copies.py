"""One copy of a sent mail in Sent: saved by mailhub, or by the provider itself.

Some providers put what their SMTP server accepts into Sent, at once or a little later, and nothing
in the protocols says so. mailhub looks after the first send, and remembers what it saw.
"""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

from accounts.infra.texts import translatable
from accounts.models import Mailbox
from approvals.core.types import ApprovedAction, NotYet
from tools.mail.message.compose import add_date
from tools.providers.base import MailProvider
from tools.providers.errors import NotFound
from tools.sending.payload import MailPayload

# After the send. A provider that has filed no copy until then does not file any.
LOOK_AFTER = timedelta(seconds=20)
# After our own copy: then a provider's late one is there too.
LOOK_AGAIN = timedelta(minutes=1)
# How long a provider that files copies may take, until mailhub saves one.
PATIENCE = timedelta(minutes=5)
NOT_FILED = translatable("The provider has not put a copy into the Sent folder.")


def keep_copy(provider: MailProvider, approved: ApprovedAction, payload: MailPayload) -> None:
    """See to it that Sent has one copy; raise NotYet while the provider may still file its own.

    Raises NotFound if a manager said that the provider files it, and it has not.
    """
    mailbox = approved.mailbox
    receipt = approved.receipt or {"at": datetime.now(UTC).isoformat()}
    left_at = datetime.fromisoformat(receipt["at"])
    date = datetime.fromisoformat(receipt.get("date", receipt["at"]))
    copy = add_date(
        approved.blob(payload.source_sha256), date=format_datetime(date), bcc=payload.bcc
    )
    expected = _is_expected(mailbox)
    if expected is not False:
        if provider.find_sent(approved.message_id) is not None:
            _remember(mailbox, files_copies=True)
            return
        if mailbox.sent_copies == Mailbox.SentCopies.PROVIDER:
            raise NotFound(NOT_FILED)
        _wait(datetime.now(UTC) - left_at, PATIENCE if expected else LOOK_AFTER)
    count = provider.save_sent_copy(copy, approved.message_id, check_lease=approved.wire_started)
    if count > 1:
        _remember(mailbox, files_copies=True)
    elif expected is not False:
        _remember(mailbox, files_copies=False)
        raise NotYet(LOOK_AGAIN)


def _is_expected(mailbox: Mailbox) -> bool | None:
    """Return whether the provider files a copy by itself; None if nobody knows yet.

    Of the other kinds of providers each knows what it does.
    """
    if mailbox.provider != Mailbox.Provider.IMAP:
        return False
    if mailbox.sent_copies == Mailbox.SentCopies.AUTOMATIC:
        return mailbox.provider_files_copies
    return mailbox.gets_copies_from_provider


def _wait(age: timedelta, patience: timedelta) -> None:
    """Raise NotYet until the mail left so long ago."""
    left = patience - age
    if left > timedelta():
        raise NotYet(min(left, LOOK_AFTER if age < LOOK_AFTER else LOOK_AGAIN))


def _remember(mailbox: Mailbox, *, files_copies: bool) -> None:
    if mailbox.provider == Mailbox.Provider.IMAP and mailbox.provider_files_copies != files_copies:
        Mailbox.objects.filter(
            pk=mailbox.pk,
            sent_copies=Mailbox.SentCopies.AUTOMATIC,
            generation=mailbox.generation,
        ).update(provider_files_copies=files_copies)
