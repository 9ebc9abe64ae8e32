"""A mailbox on a real IMAP server whose outgoing mail arrives at the other mailboxes of that
server.
"""

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any

import pytest
from django.test import Client

from accounts.infra import credentials
from accounts.models import SCOPES, ApiToken, Mailbox, Membership, Role, User
from tests.conftest import Api, Reviewer
from tests.support.servers.dovecot import Dovecot
from tests.support.servers.imap_service import ImapService
from tests.support.servers.smtp import Accepted, FaultySmtp
from tests.support.servers.smtp_service import SmtpService
from tests.support.work import work
from tools.providers.imap.sessions import POOL
from tools.providers.imap.smtp_sessions import SESSIONS

SENT = "Sent Messages"


@dataclass(frozen=True, kw_only=True)
class Office:
    """Ada, her mailbox and her agent; Mira outside; the servers behind them."""

    ada: str
    mira: str
    mailbox: Mailbox
    api: Api
    reviewer: Reviewer
    imap: ImapService
    smtp: FaultySmtp
    sender: SmtpService | None = None

    def tool(self, name: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool that must succeed, and return its result."""
        answer = self.api.tool(name, **arguments)
        assert answer.status_code in (200, 202), answer.content
        result: dict[str, Any] = answer.json()
        return result

    def refused(self, name: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool that must fail, and return the problem."""
        answer = self.api.tool(name, **arguments)
        assert answer.status_code >= 400, answer.content
        problem: dict[str, Any] = answer.json()
        return problem

    def approve(self, proposal: dict[str, Any]) -> dict[str, Any]:
        """Approve the proposal as Ada, execute it, and return the action."""
        action_id = proposal["action"]["id"]
        assert self.reviewer.decide(action_id, "approve").status_code == 302
        work()
        action: dict[str, Any] = self.api.get(f"/actions/{action_id}").json()
        return action

    def inbox(self, address: str) -> list[EmailMessage]:
        return [parsed(source) for source in self.imap.messages(address)]

    def folder(self, name: str) -> list[EmailMessage]:
        return [parsed(source) for source in self.imap.messages(self.ada, name)]

    def receive(self, message: EmailMessage | bytes, *, unread: bool = True) -> str:
        """Deliver a mail to Ada, and return its id."""
        source = message if isinstance(message, bytes) else message.as_bytes(policy=policy.SMTP)
        self.imap.deliver(self.ada, source, unread=unread)
        return str(self.tool("list_emails", max_results=1)["emails"][0]["id"])


def parsed(source: bytes) -> EmailMessage:
    """Return the message, parsed with Python's line ends."""
    return message_from_bytes(source.replace(b"\r\n", b"\n"), policy=policy.default)


def letter(
    *,
    to: str,
    subject: str = "Delivery on Thursday?",
    text: str = "When do you come?\n",
    **headers: str,
) -> EmailMessage:
    message = EmailMessage(policy=policy.SMTP)
    message["From"] = headers.pop("sender", "Mira Holm <mira@northwind.example>")
    message["To"] = to
    message["Subject"] = subject
    message["Date"] = "Mon, 02 Nov 2026 10:00:00 +0100"
    message["Message-ID"] = headers.pop("message_id", f"<{uuid.uuid4().hex}@northwind.example>")
    for name, value in headers.items():
        message[name.replace("_", "-")] = value
    message.set_content(text)
    return message


@pytest.fixture
def office(db: None, dovecot: Dovecot) -> Iterator[Office]:
    with opened(dovecot) as found:
        yield found


@pytest.fixture
def plain_office(db: None) -> Iterator[Office]:
    """Yield an office on a server that gives no folder a role and creates none by itself."""
    with Dovecot(namespace="") as server, opened(server) as found:
        yield found


@contextmanager
def opened(
    server: ImapService, between: Callable[[int], SmtpService] | None = None
) -> Iterator[Office]:
    """Yield an office; with `between`, its mail passes a server that relays to the port it gets."""
    tag = uuid.uuid4().hex[:8]
    ada, mira = f"ada.{tag}@lovelace.example", f"mira.{tag}@northwind.example"

    def deliver(accepted: Accepted) -> None:
        for recipient in accepted.recipients:
            server.deliver(recipient, accepted.content)

    with FaultySmtp(on_accept=deliver) as smtp, ExitStack() as stack:
        sender = stack.enter_context(between(smtp.port)) if between else None
        user = User.objects.create_user(ada, first_name="Ada")
        mailbox_id = uuid.uuid4()
        access = server.access(ada, smtp_port=smtp.port)
        if sender:
            access = replace(access, smtp=sender.endpoint)
        mailbox = Mailbox.objects.create(
            id=mailbox_id,
            address=ada,
            name="Ada Lovelace",
            provider="imap",
            provider_files_copies=False,  # as after its first mail
            credentials=credentials.encrypt(access.as_secrets(), mailbox_id=mailbox_id),
        )
        Membership.objects.create(mailbox=mailbox, user=user, role=Role.MANAGER)
        secret = ApiToken.issue(user=user, name="agent", scopes=list(SCOPES), mailboxes=[mailbox])[
            1
        ]
        server.signed_in(ada)
        yield Office(
            ada=ada,
            mira=mira,
            mailbox=mailbox,
            api=Api(secret=secret, client=Client()),
            reviewer=Reviewer.signed_in(user),
            imap=server,
            smtp=smtp,
            sender=sender,
        )
        SESSIONS.close_all()
        POOL.close_all()
