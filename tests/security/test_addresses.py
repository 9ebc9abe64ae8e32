"""One spelling for domains and addresses, and none that a mail server could read as another."""

import ast
from typing import Any

import pytest

from accounts.infra.idn import ascii_domain, plain_address
from accounts.models import Mailbox, User
from approvals.models import ApprovalPolicy
from tests.conftest import HELLO, Api, problem_of
from tests.support.people.browser import browser, post_rules
from tests.support.sources import parsed

pytestmark = pytest.mark.django_db(transaction=True)
ODD = [
    "evil.example!a@b.example",
    "-oQ/tmp@b.example",
    "-a@b.example",
    "a%c.example@b.example",
    "@c.example:a@b.example",
    '"a b"@b.example',
    "|prog@b.example",
    "/tmp/x@b.example",
    "`id`@b.example",
    "a\\b@b.example",
    ".a@b.example",
    "a..b@b.example",
    "a@b@c.example",
]


def test_odd_address_is_refused_at_every_door(api: Api, alice: User, mailbox: Mailbox) -> None:
    for address in ODD:
        answer = api.tool("send_email", **{**HELLO, "to": [address]}, confirm=True)
        assert problem_of(answer)["errors"][0]["field"] == "to.0", address
        post_rules(alice, mailbox, refused=address)
        assert not ApprovalPolicy.objects.exclude(refused=[]).exists(), address
        page = browser(alice).post("/mailboxes/connect/", {"address": address})
        assert page.context["form"].errors, address


@pytest.mark.parametrize(
    ("rule", "address"),
    [
        ("straße.de", "a@straße.de"),
        ("straße.de", "a@mail.xn--strae-oqa.de"),
        ("\uff25\uff38AMPLE.com", "a@example.com"),  # full-width letters
        ("a@faß.example", "A@FAß.example"),
        ("müller.de.", "a@MÜLLER.de"),
    ],
)
def test_refused_domain_holds_in_every_spelling(
    api: Api, alice: User, mailbox: Mailbox, rule: str, address: str
) -> None:
    post_rules(alice, mailbox, refused=rule)
    answer = api.tool("send_email", **{**HELLO, "to": [address]}, confirm=True)
    assert problem_of(answer)["code"] == "policy_blocked"


def test_sharp_s_is_another_domain_than_double_s(api: Api, alice: User, mailbox: Mailbox) -> None:
    post_rules(alice, mailbox, refused="straße.de")
    assert api.propose(to=["a@strasse.de"])


def test_wizard_writes_the_domain_in_ascii(alice: User, mailbox: Mailbox) -> None:
    page: Any = browser(alice).post("/mailboxes/connect/imap/", {"address": "a@straße.de"})
    assert page.context["form"].cleaned_data["address"] == "a@xn--strae-oqa.de"


def test_plain_addresses_stay_as_they_are() -> None:
    for address in (
        "a+b@c.example",
        "SRS0=x=y@c.example",
        "o'neil@c.example",
        "a_b-c.d@c.example",
        "x=y@c.example",
    ):
        assert plain_address(address) == address
    assert ascii_domain("A_b.Example.") == "a_b.example"


def test_no_code_uses_the_old_idna() -> None:
    """Forbid Python's own codec: it is IDNA 2003, which reads straße.de as strasse.de."""
    old = [
        path.name
        for path, tree in parsed("idna")
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and node.value == "idna"
    ]
    assert old == []
