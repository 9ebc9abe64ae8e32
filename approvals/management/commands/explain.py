from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError, CommandParser

from approvals.models import PendingAction
from approvals.reports.story import tell_story


class Command(BaseCommand):
    help = "Prints the story of one action, and why it has not left: states, attempts and events, no content."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("action", type=UUID, help="the id, as in the address of its page")

    def handle(self, *args: Any, action: UUID, **options: Any) -> None:
        found = PendingAction.objects.select_related("mailbox").filter(pk=action).first()
        if found is None:
            raise CommandError("There is no such action.")
        for line in tell_story(found):
            self.stdout.write(line)
