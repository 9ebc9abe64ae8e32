"""From a line of text to a command that may run: parsed, and judged by the CLI's own list of
commands. Pure.

The line never reaches a shell of ours, and the line that runs is built again from its parts. The
MCP server behind does use a shell (`dist/util.js`, `spawn(command, {shell: true})`). So each part
is quoted for it, and the characters that it refuses even inside quotes are refused here, with a
reason.
"""

import re
import shlex
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field

from accounts.infra.texts import translatable
from tools.mail.text.addresses import BIDI
from tools.mail.text.characters import without_invisible

NAME = "m365_run_command"  # of the tool
PROGRAM = "m365"
MAX_CHARS = 8000

# The last word decides whether a command reads. Everything else is a write, and so is a command
# that our list lacks: an unknown command may do anything, so a person decides about it.
# `export` writes: the CLI makes a package in the tenant, and a file in its folder.
READING_VERBS = frozenset({"get", "list", "show", "status", "search", "version"})
READING_GROUP = "report"  # in `spo report activityusercounts` the last word only names the report

# Refused: sign-in and identity, the unrestricted command `request`, and commands that use files of
# this machine.
REFUSED_GROUPS = {
    "request": "it calls any address with the tenant's token",
    "login": "signing in is for the operator",
    "logout": "signing out is for the operator",
    "connection": "connections are for the operator",
    "context": "the configuration is for the operator",
    "cli": "the configuration is for the operator",
    "setup": "the configuration is for the operator",
    "util": "it shows access tokens",
    "docs": "it opens a browser on the server",
    "app": "it works on files of the server",
    "spfx": "it works on files of the server",
}
# Options that read or write a file of this machine, in any command that has them.
LOCAL_FILES = frozenset(
    {
        "asFile", "path", "save", "saveToConfig", "outputFile", "outputFolder", "filePath", "certificateFile",
        "attachment", "logoPath", "coloredIconPath", "outlineIconPath", "sourceFile", "targetFile",
    }
)  # fmt: skip
# Dropped silently: the CLI's own messages (`--debug` prints headers), and the output format,
# because the reducers need JSON.
DROPPED = frozenset({"output", "o", "debug", "verbose"})
# A quoted word with a space would be one word here and several for the CLI.
COMMAND_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*")
OPTION_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
# Refused by the server anywhere in the line, and NUL.
SHELL_CHARACTERS = re.compile(r"[;&|`$<>\n\r\0]")

# Mail has its own tools, which hide mailhub's own mail with its sign-in codes. So no command that
# shows mail is run: of `outlook` only these are.
OUTLOOK = (
    "outlook calendar ", "outlook calendargroup ", "outlook event ", "outlook mail send ",
    "outlook mailbox settings ", "outlook report ", "outlook room ", "outlook roomlist ",
)  # fmt: skip
# These find mail, or hold it: of a group, flagged as a task, reported, or as the input of a flow.
SHOWS_MAIL = (
    "search ", "entra m365group conversation ", "todo task get ", "todo task list ",
    "purview threatassessment get ", "purview threatassessment list ", "flow run get ", "flow run list ",
)  # fmt: skip
# The CLI puts values into addresses unchanged, so `--id ../messages` would show mail too. Only for
# SharePoint a value may be a path or an address, and only one of SharePoint.
SHAREPOINT = frozenset({"spo", "spe", "spp", "file", "onedrive"})
PATH = re.compile(r"[/\\?#%]")
LEADS_AWAY = re.compile(
    r"\.\.|%2e|[\x00-\x1f]|https?:(?!//[a-z0-9-]+\.sharepoint(-mil)?\.(com|us|cn|de)(/|$))",
    re.IGNORECASE,
)
LOCAL = "query"  # the CLI filters its answer by it


class Refused(Exception):
    """Nobody may run the command; the text is a sentence for the caller."""


@dataclass(frozen=True, kw_only=True)
class CliCommand:
    """A command as the CLI describes it: its options by all their names, the known switches, and
    the options known to take a value.

    For many options the list does not say which they are.
    """

    name: str
    options: Mapping[str, str] = field(default_factory=dict)
    switches: frozenset[str] = frozenset()
    valued: frozenset[str] = frozenset()

    @property
    def reads(self) -> bool:
        if not self.options:
            return False
        words = self.name.split()
        return words[-1] in READING_VERBS or words[-2:-1] == [READING_GROUP]


@dataclass(frozen=True, kw_only=True)
class Command:
    """A judged command: its name, its options in order (None: a switch), and True if it
    only reads.
    """

    name: str
    options: tuple[tuple[str, str | None], ...]
    reads: bool

    @property
    def argv(self) -> tuple[str, ...]:
        given = [
            part
            for name, value in self.options
            for part in ("--" + name if len(name) > 1 else "-" + name, value)
            if part is not None
        ]
        return (PROGRAM, *self.name.split(), *given)

    @property
    def line(self) -> str:
        """Return the command as one line that a POSIX shell splits into `argv` again."""
        return shlex.join(self.argv)


def classified(text: str, known: Mapping[str, CliCommand]) -> Command:
    """Parse a line and judge it; raise Refused.

    1. The words: quotes as a shell reads them, no expansion; no character that a shell acts on, and none
       that a person would not see.
    2. The command: all words before the first option, as the CLI names it.
    3. The options: each once, no value from a file, and no option that uses a file here. A reading
       command takes only options that it has.
    """
    if len(text) > MAX_CHARS:
        raise Refused(
            translatable(
                "A command has at most %(max_chars)s characters.", max_chars=f"{MAX_CHARS:,}"
            )
        )
    if SHELL_CHARACTERS.search(text.strip()):
        raise Refused(
            translatable(
                "A command must not contain ; & | ` $ < > or a line break, not even inside quotes."
            )
        )
    if _is_not_as_shown(text):
        raise Refused(
            translatable(
                "A command must not contain invisible characters, nor those that turn the direction of a text."
            )
        )
    try:
        words = shlex.split(text)
    except ValueError:
        raise Refused(translatable("The quotes of the command are not closed.")) from None
    if not words or words[0] != PROGRAM:
        raise Refused(translatable('A command must start with "m365".'))
    start = next((place for place, word in enumerate(words) if word.startswith("-")), len(words))
    name = " ".join(words[1:start])
    _refuse_outright(words[1:start])
    command = known.get(name, CliCommand(name=name))
    return Command(name=name, options=tuple(_options(words[start:], command)), reads=command.reads)


def _is_not_as_shown(text: str) -> bool:
    """Return True if a person who reads the line would approve something else."""
    controls = {each for each in text.strip() if unicodedata.category(each) in ("Cc", "Zl", "Zp")}
    return bool(controls - {"\t"}) or bool(BIDI.search(text)) or without_invisible(text) != text


def refuse_ambiguous(command: Command, known: Mapping[str, CliCommand]) -> None:
    """Raise Refused unless the line that runs, read again, is the command that was judged."""
    if classified(command.line, known) != command:
        raise Refused(
            translatable(
                "mailhub cannot quote this command safely. Write it without unusual quotes."
            )
        )


def server_line(command: Command) -> str:
    """Return the line for the MCP server, which uses CSV unless the line says otherwise."""
    return f"{command.line} --output json"


def _refuse_outright(words: list[str]) -> None:
    """Raise Refused by the first word in any case, so that a newer list of commands cannot weaken
    this.
    """
    if not words:
        raise Refused(translatable('Name the command, for example "m365 status".'))
    if not all(COMMAND_WORD.fullmatch(word) for word in words):
        raise Refused(
            translatable(
                "The words of a command may hold only letters, digits and hyphens."
                " Quote each word separately, or not at all."
            )
        )
    group = words[0].lower()
    if group in REFUSED_GROUPS:
        raise Refused(
            translatable(
                '"%(program)s %(group)s" is never run here: %(reason)s.',
                program=PROGRAM,
                group=group,
                reason=REFUSED_GROUPS[group],
            )
        )
    name = " ".join([*words, ""]).lower()
    if name.startswith(SHOWS_MAIL) or (group == "outlook" and not name.startswith(OUTLOOK)):
        raise Refused(
            translatable("Commands that show mail are never run here. Use the tools for mail.")
        )
    if any("accesstoken" in word.lower() for word in words):
        raise Refused(translatable("Access tokens are never shown here."))


def _options(words: list[str], command: CliCommand) -> list[tuple[str, str | None]]:
    found: list[tuple[str, str | None]] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if not word.startswith("-"):
            raise Refused(
                translatable(
                    '"%(word)s" belongs to no option. Arguments are options: --name "value".',
                    word=word[:80],
                )
            )
        given, equals, value = word.lstrip("-").partition("=")
        value_given: str | None = value if equals else None
        if value_given is None and rest and not rest[0].startswith("-"):
            value_given = rest.pop(0)
        if given in DROPPED:
            continue
        name = _find_option(word, given, command)
        if value_given is None and name in command.valued:
            raise Refused(translatable("--%(name)s needs a value.", name=name))
        if value_given is not None:
            _check_value(name, value_given, command)
        if any(name == before for before, _ in found):
            raise Refused(translatable("--%(name)s is given twice.", name=name))
        found.append((name, value_given))
    return found


def _find_option(word: str, given: str, command: CliCommand) -> str:
    dashes = len(word) - len(word.lstrip("-"))
    name = command.options.get(given)
    if name is None and not command.reads and OPTION_NAME.fullmatch(given):
        name = given  # some commands take any option, such as the columns of a list
    # `-query` would be read as several short options; the CLI has no name like `---x`.
    if name is None or dashes != (1 if len(given) == 1 else 2):
        raise Refused(
            translatable(
                '"%(program)s %(command)s" has no option "%(word)s".',
                program=PROGRAM,
                command=command.name[:80],
                word=word[:60],
            )
        )
    if name in LOCAL_FILES:
        raise Refused(
            translatable(
                "--%(name)s is never used here: it reads or writes a file of the server.", name=name
            )
        )
    return name


def _check_value(name: str, value: str, command: CliCommand) -> None:
    if value.startswith("@"):
        raise Refused(
            translatable(
                "--%(name)s: a value that starts with @ would be read from a file of the server.",
                name=name,
            )
        )
    if value.startswith("-"):
        raise Refused(translatable("--%(name)s: a value cannot start with a dash.", name=name))
    foreign = LEADS_AWAY if command.name.split()[0] in SHAREPOINT else PATH
    if command.reads and name != LOCAL and foreign.search(value):
        raise Refused(
            translatable(
                "--%(name)s: this value could lead the command to other data, such as mail.",
                name=name,
            )
        )
    if name in command.switches and value not in ("true", "false"):
        raise Refused(translatable("--%(name)s is a switch: true or false.", name=name))
