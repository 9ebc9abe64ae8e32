import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from accounts.connect import google, microsoft
from accounts.connect.connecting import ANOTHER_ACCOUNT, AnotherAccount, connect_mailbox
from accounts.connect.imap import ConnectError, ImapAccess, prove
from accounts.connect.refreshing import CannotConnect
from accounts.infra.safe_hosts import Endpoint
from accounts.management.lookup import find_user
from accounts.models import Mailbox, User


class Command(BaseCommand):
    help = "Connects a mailbox after its access has been tested; prints its id."
    requires_system_checks = []  # a person waits, and the servers have run them

    def add_arguments(self, parser: ArgumentParser) -> None:
        kinds = parser.add_subparsers(dest="kind", required=True)
        imap = kinds.add_parser("imap", help="any mailbox with IMAP and SMTP")
        imap.add_argument("--imap", required=True, metavar="HOST:PORT[:tls|starttls|plain]")
        imap.add_argument("--smtp", required=True, metavar="HOST:PORT[:tls|starttls|plain]")
        imap.add_argument("--username", help="when it is not the address")
        imap.add_argument(
            "--password-stdin",
            action="store_true",
            required=True,
            help="one line on standard input",
        )
        microsoft_365 = kinds.add_parser(
            "microsoft", help="Microsoft 365: prints where to sign in, with a code"
        )
        microsoft_365.add_argument(
            "--application",
            action="store_true",
            help="by the application's own permissions, without a person",
        )
        microsoft_365.add_argument(
            "--permissions",
            nargs="+",
            choices=microsoft.PERMISSIONS,
            default=[],
            help="what to ask for, or what the application was given; else MICROSOFT_PERMISSIONS",
        )
        gmail = kinds.add_parser("gmail", help="Gmail: prints a link and takes the pasted answer")
        gmail.add_argument(
            "--token-file", type=Path, help="authorized-user file as google-auth writes it"
        )
        for kind in (imap, microsoft_365, gmail):
            kind.add_argument("--address", required=True)
            kind.add_argument(
                "--owner", required=True, help="address or id of the person who will manage it"
            )

    def handle(self, *args: Any, kind: str, address: str, owner: str, **options: Any) -> None:
        user = find_user(owner)
        try:
            mailbox = {"imap": _imap, "microsoft": self._microsoft, "gmail": self._gmail}[kind](
                user, address, options
            )
        except ValueError as error:
            raise CommandError(str(error)) from None
        except ConnectError as error:
            hint = " Check the name and the port." if error.step.endswith("_connect") else ""
            raise CommandError(f"Not saved. {error.sentence}{hint} (step: {error.step})") from None
        except CannotConnect as error:
            raise CommandError(f"Not saved. {error}") from None
        except AnotherAccount:
            raise CommandError(ANOTHER_ACCOUNT) from None
        except PermissionError:
            raise CommandError(
                "This mailbox is connected already and has another manager."
            ) from None
        self.stdout.write(str(mailbox.id))

    def _microsoft(self, owner: User, address: str, options: dict[str, Any]) -> Mailbox:
        """Connect by Microsoft; only the id goes to standard output, the page to standard error."""
        if options["application"]:
            granted = microsoft.by_client_credentials(options["permissions"])
            if {microsoft.READ, microsoft.DRAFT} & set(granted.scopes):
                microsoft.prove_application(address, granted.secrets["access_token"])
            else:
                self.stderr.write(
                    "The mailbox itself was not tested: that takes a permission to read."
                )
        else:
            granted = microsoft.by_device_code(self.stderr.write, options["permissions"])
            microsoft.refuse_another(address, granted)
        return connect_mailbox(
            owner=owner,
            address=address,
            provider=Mailbox.Provider.MICROSOFT,
            secrets=granted.secrets,
            scopes=list(granted.scopes),
        )

    def _gmail(self, owner: User, address: str, options: dict[str, Any]) -> Mailbox:
        default = Path(settings.GMAIL_TOKEN_PATH) if settings.GMAIL_TOKEN_PATH else None
        path = options["token_file"] or (default if default and default.is_file() else None)
        grant = google.grant_in_file(path) if path else self._ask_for_grant(address)
        if google.address_of(grant).lower() != address.strip().lower():
            raise CommandError("Not saved. Google signed in another address than this one.")
        return connect_mailbox(
            owner=owner,
            address=address,
            provider=Mailbox.Provider.GMAIL,
            secrets=dict(grant.secrets),
            scopes=grant.abilities,
        )

    def _ask_for_grant(self, address: str) -> google.Grant:
        """Ask for a pasted answer; the link and the question go to standard error."""
        client = google.load_client()
        authorization = google.begin(client, login_hint=address)
        self.stderr.write(f"Open this in a browser and allow the access:\n\n{authorization.url}\n")
        self.stderr.write(
            "Then paste the address of the page that cannot be shown (it begins with http://127.0.0.1):"
        )
        return google.finish(client, authorization, sys.stdin.readline())


def _imap(owner: User, address: str, options: dict[str, Any]) -> Mailbox:
    access = ImapAccess(
        imap=Endpoint.parse(options["imap"]),
        smtp=Endpoint.parse(options["smtp"]),
        username=options["username"] or address,
        password=sys.stdin.readline().rstrip("\r\n"),
    )
    prove(access)
    return connect_mailbox(
        owner=owner,
        address=address,
        provider=Mailbox.Provider.IMAP,
        secrets=access.as_secrets(),
        scopes=["read", "draft", "send"],
    )
