"""Collect the texts that people read, for the translators."""

from pathlib import Path

from django.core.management.commands import makemessages

CODE_AND_SENTENCE = (
    "Refused",
    "Unsupported",
    "NotAuthorized",
    "NotPermitted",
    "Unavailable",
    "OutcomeUnknown",
    "Unreachable",
    "LoginRefused",
)


class Command(makemessages.Command):
    """Django's command, which also collects the texts of `Problem` and `translatable`.

    A fuzzy guess would be a wrong translation, so nothing is guessed.
    """

    xgettext_options = [
        *makemessages.Command.xgettext_options,
        "--keyword=translatable:1",
        "--keyword=ntranslatable:1,2",
        "--keyword=Problem:2",
        "--keyword=not_found:1",
        "--keyword=BadValue:1",
        "--keyword=CannotConnect:1",
        # Errors of providers and of connecting: a code and a sentence.
        *(f"--keyword={name}:2" for name in CODE_AND_SENTENCE),
    ]
    msgmerge_options = [
        *makemessages.Command.msgmerge_options,
        "--no-fuzzy-matching",
    ]

    def write_po_file(self, potfile: str, locale: str) -> None:
        """Write the file without the time at which it was made: only texts make a difference."""
        super().write_po_file(potfile, locale)
        path = Path(potfile).parent / locale / "LC_MESSAGES" / f"{self.domain}.po"
        lines = path.read_text().splitlines(keepends=True)
        path.write_text("".join(line for line in lines if "POT-Creation-Date:" not in line))
