import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from accounts.connect import microsoft
from accounts.connect.connecting import connect_mailbox
from accounts.connect.imap import ConnectError, ImapAccess, prove
from accounts.hosts import Endpoint
from accounts.management.named import user_named
from accounts.models import Mailbox, User


class Command(BaseCommand):
    help = "Connects a mailbox after its access has been tested; prints its id."

    def add_arguments(self, parser: ArgumentParser) -> None:
        kinds = parser.add_subparsers(dest="kind", required=True)
        imap = kinds.add_parser("imap", help="any mailbox with IMAP and SMTP")
        imap.add_argument("--imap", required=True, metavar="HOST:PORT[:tls|starttls|plain]")
        imap.add_argument("--smtp", required=True, metavar="HOST:PORT[:tls|starttls|plain]")
        imap.add_argument("--username", help="when it is not the address")
        imap.add_argument("--password-stdin", action="store_true", required=True, help="one line on standard input")
        microsoft_365 = kinds.add_parser("microsoft", help="Microsoft 365: prints where to sign in, with a code")
        microsoft_365.add_argument(
            "--application", action="store_true", help="by the application's own permissions, without a person"
        )
        for kind in (imap, microsoft_365):
            kind.add_argument("--address", required=True)
            kind.add_argument("--owner", required=True, help="e-mail address of the person who will manage it")

    def handle(self, *args: Any, kind: str, address: str, owner: str, **options: Any) -> None:
        user = user_named(owner)
        try:
            mailbox = {"imap": _imap, "microsoft": self._microsoft}[kind](user, address, options)
        except ValueError as error:
            raise CommandError(str(error)) from None
        except ConnectError as error:
            raise CommandError(f"Not saved. {error.sentence} (step: {error.step})") from None
        except microsoft.SignInFailed as error:
            raise CommandError(f"Not saved. {error.sentence}") from None
        except PermissionError:
            raise CommandError("This mailbox is connected already and has another manager.") from None
        self.stdout.write(str(mailbox.id))

    def _microsoft(self, owner: User, address: str, options: dict[str, Any]) -> Mailbox:
        """The id alone goes to standard output; where to sign in goes to standard error."""
        if options["application"]:
            granted = microsoft.by_client_credentials()
            microsoft.prove_application(address, granted.secrets["access_token"])
        else:
            granted = microsoft.by_device_code(self.stderr.write)
            microsoft.refuse_another(address, granted.secrets["access_token"])
        return connect_mailbox(
            owner=owner, address=address, provider=Mailbox.Provider.MICROSOFT,
            secrets=granted.secrets, scopes=list(granted.scopes),
        )  # fmt: skip


def _imap(owner: User, address: str, options: dict[str, Any]) -> Mailbox:
    access = ImapAccess(
        imap=Endpoint.parse(options["imap"]),
        smtp=Endpoint.parse(options["smtp"]),
        username=options["username"] or address,
        password=sys.stdin.readline().rstrip("\r\n"),
    )
    prove(access)
    return connect_mailbox(
        owner=owner, address=address, provider=Mailbox.Provider.IMAP, secrets=access.as_secrets(),
        scopes=["read", "draft", "send"],
    )  # fmt: skip
