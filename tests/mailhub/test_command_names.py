"""Commands take the ids that commands print, wherever they take an address."""

from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from accounts.models import ApiToken, Mailbox, User
from tests.conftest import Reviewer

pytestmark = pytest.mark.django_db
NOBODY = ["0", "9" * 30, "٣", "nobody@x.example"]
NO_MAILBOX = ["00000000-0000-4000-8000-000000000000", "7", "nobody@x.example"]


def run(*arguments: str) -> str:
    printed = StringIO()
    call_command(*arguments, stdout=printed, stderr=StringIO())
    return printed.getvalue().strip()


def token_for(user: str, mailboxes: str, name: str = "agent") -> str:
    options = {"user": user, "name": name, "scopes": "mail:read", "mailboxes": mailboxes}
    return run("create_token", *(f"--{name}={value}" for name, value in options.items()))


def test_printed_ids_name_person_and_mailbox(
    alice: User, mailbox: Mailbox, reviewer: Reviewer
) -> None:
    assert token_for(str(alice.pk), f"{mailbox.pk}").startswith("mh_")
    assert ApiToken.objects.get().mailboxes.get() == mailbox
    assert "paused" in run("pause", f"--mailbox={str(mailbox.pk).upper()}")
    assert "may leave again" in run("resume", f"--mailbox={mailbox.pk}")
    assert "/sign-in/" in run("sign_in_link", f"--user={alice.pk}")
    assert "http" in run("recover_person", f"--user={alice.pk}")
    person = run("create_user", "--email=new@lovelace.example")
    assert "http" in run("sign_in_link", f"--user={person}")


def test_invitation_is_found_by_the_id_of_its_mailbox(mailbox: Mailbox, reviewer: Reviewer) -> None:
    with pytest.raises(CommandError, match="No open invitation"):
        run("invitation_link", f"--mailbox={mailbox.pk}", "--email=new@lovelace.example")


@pytest.mark.parametrize("name", NOBODY)
def test_unknown_person_is_named_as_such(mailbox: Mailbox, name: str) -> None:
    with pytest.raises(CommandError, match="No user with this address or id"):
        token_for(name, mailbox.address)


@pytest.mark.parametrize("name", NO_MAILBOX)
def test_unknown_mailbox_is_named_as_such(alice: User, name: str) -> None:
    with pytest.raises(CommandError, match="no mailbox with this address or id"):
        token_for(alice.email, name)
    with pytest.raises(CommandError, match="no mailbox with this address or id"):
        run("pause", f"--mailbox={name}")


def test_every_option_that_names_somebody_says_that_it_takes_ids() -> None:
    named = {"--user", "--owner", "--mailbox", "--mailboxes"}
    for option in options_of_our_commands():
        if named & set(option.option_strings) and option.type is not int:  # a number names nobody
            assert " id" in (option.help or ""), option


def options_of_our_commands() -> Any:
    """Yield each option of the commands of this project, those of subcommands included."""
    from django.core.management import get_commands, load_command_class

    for name, app in get_commands().items():
        if app in ("accounts", "approvals", "tools", "mailhub"):
            parsers = [load_command_class(app, name).create_parser("manage.py", name)]
            while parsers:
                for option in parsers.pop()._actions:
                    yield option
                    if isinstance(option.choices, dict):
                        parsers += option.choices.values()
