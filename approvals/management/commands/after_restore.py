from argparse import ArgumentParser
from collections import Counter
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from accounts.people.recovery import end_what_came_back, revoke_everything
from approvals.core.states import OPEN
from approvals.gate import overdue, restore
from approvals.gate.pauses import restored
from approvals.models import PendingAction

WORDS = {
    "closed": "found in Sent, closed as sent",
    "in_sent": "found in Sent although nobody had approved it, waits for a person",
    "not_in_sent": "not found in Sent, waits for a person",
    "nobody_looks": "nothing shows whether it happened already, waits for a person",
    "not_looked_at": "Sent could not be looked at, waits for a person",
}
CAME_BACK = (
    "Everybody is signed out, also of notifications in browsers, and open links to sign in and invitations have ended."
    " The copy has again what people have taken away since: tokens and connected programs, members and their roles,"
    " accounts and staff, passwords and passkeys, webhooks, chat services, rules. Take it away again before mail may"
    " leave; `--revoke-tokens` ends all tokens and removes all chat services."
)


class Leaving(CommandError):
    """The copy has mail that is leaving, by its lease."""


def add_revoke_tokens(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--revoke-tokens",
        action="store_true",
        help="also revoke the tokens and connected programs of everybody, and remove their chat services",
    )


class Command(BaseCommand):
    help = (
        "After a restored backup, a rolled-back volume or a promoted replica: compares what was approved with Sent, "
        "then lets mail leave again. Nothing that may have been sent leaves without a new approval."
    )
    requires_system_checks = []  # a person waits; the servers have run them

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--dry-run", action="store_true", help="say what differs, and change nothing"
        )
        parser.add_argument(
            "--yes", action="store_true", help="do not ask before mail may leave again"
        )
        parser.add_argument(
            "--force",
            action="store_true",
            help="go through it even if mailhub has found no difference by itself",
        )
        add_revoke_tokens(parser)

    def handle(
        self,
        *args: Any,
        dry_run: bool,
        yes: bool,
        force: bool,
        revoke_tokens: bool,
        **options: Any,
    ) -> None:
        differs = restored.compare()
        paused = restored.reason()
        found = PendingAction.objects.filter(status__in=OPEN).count()
        self.stdout.write(f"{paused or 'Nothing differs.'}\n{found} open.")
        if dry_run:
            return
        if revoke_tokens:  # also if the operator has let mail leave already
            revoke_everything()
            self.stdout.write("All tokens are revoked, and all chat services removed.")
        if not (force or paused):
            return
        if force or differs or not restored.is_begun():
            # Before the next step, which fails while a lease in the copy runs.
            end_what_came_back()
            self._begin_generation()
        tally: Counter[str] = Counter()
        for each in restore.reconcile_after_restore():
            words = WORDS[each.found] + (
                ", handed over according to the send journal" if each.handed_over else ""
            )
            tally[words] += 1
            self.stdout.write(f"{each.action_id}: {words}")
        self.stdout.write(
            "\n".join(f"{count} {words}" for words, count in sorted(tally.items()))
            or "Nothing to do."
        )
        if lost := restore.find_lost_mails():
            self.stdout.write(
                f"{len(lost)} handed over that this copy does not know, the last at {max(lost):%Y-%m-%d %H:%M} UTC."
                " Programs may propose them again, and no page will warn of that."
            )
        self.stdout.write(CAME_BACK)
        if not yes and input("Let mail leave again? [y/N] ").strip().lower() != "y":
            self.stdout.write("Everything stays paused. Run this again when you are ready.")
            return
        restored.end_restore()
        self.stdout.write("Mail may leave again.")

    def _begin_generation(self) -> None:
        restored.pause_for("operator")
        overdue.end_dead_leases()
        try:
            restored.begin_generation()
        except restored.Leaving:
            raise Leaving(
                "Mail is leaving now, or was when the copy was made. Run this again in a minute."
            ) from None
