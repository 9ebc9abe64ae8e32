from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from approvals import blobs


class Command(BaseCommand):
    help = (
        "Lists the objects of the bucket that this database does not name, as after a restored backup. "
        "The bucket must belong to this mailhub only."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--remove", action="store_true", help="let the sweep remove them")

    def handle(self, *args: Any, remove: bool, **options: Any) -> None:
        count = 0
        for name in blobs.list_unnamed():
            count += 1
            self.stdout.write(name)
            if remove:
                blobs.leave_unused([name])
        self.stdout.write(f"Objects that no row names: {count}.")
