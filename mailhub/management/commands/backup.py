from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from mailhub.operations import backups


class Command(BaseCommand):
    help = "Writes a backup into a new folder while mailhub runs: database, home and send journal, without the keys."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("folder", type=Path)

    def handle(self, *args: Any, folder: Path, **options: Any) -> None:
        manifest = backups.back_up(folder)
        keys = manifest["keys"]
        self.stdout.write(
            f"{len(manifest['files'])} files are in {folder}.\nIt opens only with the keys, which are not in it:"
            f" encryption {', '.join(keys['encryption'])}, secret {keys['secret']}."
        )
