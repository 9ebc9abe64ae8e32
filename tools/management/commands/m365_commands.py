from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from tools.m365.commands import format_commands


class Command(BaseCommand):
    help = "Prints tools/m365/commands.tsv for an unpacked npm package @pnp/cli-microsoft365."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("package", type=Path, help="the folder that holds its package.json")

    def handle(self, *args: Any, package: Path, **options: Any) -> None:
        try:
            self.stdout.write(format_commands(package), ending="")
        except (OSError, ValueError, KeyError) as error:
            raise CommandError(f"{package} is no unpacked @pnp/cli-microsoft365.") from error
