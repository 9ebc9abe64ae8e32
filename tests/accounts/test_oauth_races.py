"""Two requests with the same code or refresh token, in every order that matters."""

import pytest
from allauth.idp.oidc.models import Token

from accounts.models import Mailbox, User
from accounts.oauth import tokens
from tests.conftest import Api
from tests.support.people.programs import Program, allow

pytestmark = [pytest.mark.django_db, pytest.mark.both]


@pytest.fixture
def program(db: None) -> Program:
    return Program.registered()


def held(kind: str, secret: str) -> Token:
    """Return the row of a code or refresh token, as a request has read it."""
    token = Token.objects.select_related("client", "user").get(type=kind)
    assert token.client is not None
    assert tokens.find(kind, secret, token.client) == token
    return token


def test_later_use_of_a_refresh_token_ends_the_first_tokens(
    program: Program, alice: User, mailbox: Mailbox
) -> None:
    first = program.connect(alice, mailbox)
    read_before = held(tokens.REFRESH, first["refresh_token"])
    second = program.refresh(first["refresh_token"]).json()
    assert not tokens.use(read_before)
    assert Api(secret=second["access_token"]).tool("list_mailboxes").status_code == 401
    assert program.refresh(second["refresh_token"]).status_code == 400


def test_code_that_was_sent_again_gives_no_tokens_any_more(
    program: Program, alice: User, mailbox: Mailbox
) -> None:
    code = program.take(allow(alice, program.address(), mailbox))
    read = held(tokens.CODE, code)
    assert tokens.use(read)
    assert program.exchange(code).status_code == 400
    assert read.client is not None
    with pytest.raises(tokens.GrantGone):
        tokens.issue(
            client=read.client,
            given_for=read,
            scopes=["mail:read"],
            resources=[],
            access="mho_late",
            refresh=None,
        )
    assert not Token.objects.filter(user=alice).exists()
