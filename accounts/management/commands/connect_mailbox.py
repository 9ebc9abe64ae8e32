import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from accounts.connect.connecting import connect_mailbox
from accounts.connect.imap import ConnectError, ImapAccess, prove
from accounts.hosts import Endpoint
from accounts.management.named import user_named
from accounts.models import Mailbox


class Command(BaseCommand):
    help = "Connects a mailbox after its access has been tested; prints its id."

    def add_arguments(self, parser: ArgumentParser) -> None:
        kinds = parser.add_subparsers(dest="kind", required=True)
        imap = kinds.add_parser("imap", help="any mailbox with IMAP and SMTP")
        imap.add_argument("--address", required=True)
        imap.add_argument("--owner", required=True, help="e-mail address of the person who will manage it")
        imap.add_argument("--imap", required=True, metavar="HOST:PORT[:tls|starttls|plain]")
        imap.add_argument("--smtp", required=True, metavar="HOST:PORT[:tls|starttls|plain]")
        imap.add_argument("--username", help="when it is not the address")
        imap.add_argument("--password-stdin", action="store_true", required=True, help="one line on standard input")

    def handle(self, *args: Any, address: str, owner: str, imap: str, smtp: str, **options: Any) -> None:
        user = user_named(owner)
        try:
            access = ImapAccess(
                imap=Endpoint.parse(imap),
                smtp=Endpoint.parse(smtp),
                username=options["username"] or address,
                password=sys.stdin.readline().rstrip("\r\n"),
            )
            prove(access)
            mailbox = connect_mailbox(
                owner=user, address=address, provider=Mailbox.Provider.IMAP, secrets=access.as_secrets(),
                scopes=["read", "draft", "send"],
            )  # fmt: skip
        except ValueError as error:
            raise CommandError(str(error)) from None
        except ConnectError as error:
            raise CommandError(f"Not saved. {error.sentence} (step: {error.step})") from None
        except PermissionError:
            raise CommandError("This mailbox is connected already and has another manager.") from None
        self.stdout.write(str(mailbox.id))
