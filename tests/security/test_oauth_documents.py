"""Attacks through metadata documents, which mailhub reads from hosts that anybody may name."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from allauth.idp.oidc.models import Client as Registered
from pytest_httpserver import HTTPServer

from accounts.models import ApiToken, Mailbox, User
from tests.accounts.scripted_servers import trusted
from tests.support.loopback import on_ports
from tests.support.people.browser import browser
from tests.support.people.programs import BACK, Program, allow
from tests.support.servers.certificates import Authority, authority
from tests.support.servers.http import QuickServer

pytestmark = pytest.mark.django_db
__all__ = ["authority", "trusted"]
PATH = "/program.json"


@pytest.fixture
def documents(trusted: Authority, settings: Any) -> Iterator[HTTPServer]:
    with QuickServer(ssl_context=trusted.server_context("localhost")) as server:
        settings.MAILHUB_LOOPBACK_FOR_PEOPLE = on_ports(server.port)
        yield server


def address_of(documents: HTTPServer) -> str:
    return documents.url_for(PATH).replace("127.0.0.1", "localhost")


def serve(documents: HTTPServer, **changes: Any) -> Program:
    address = address_of(documents)
    document = {"client_id": address, "client_name": "Known", "redirect_uris": [BACK], **changes}
    documents.expect_request(PATH).respond_with_json(document)
    return Program(client_id=address)


def test_whole_address_of_the_document_is_shown(
    documents: HTTPServer, alice: User, mailbox: Mailbox
) -> None:
    program = serve(documents)
    page = browser(alice).get(program.address()).content.decode()
    assert f'<span class="addr">{program.client_id}</span>' in page
    assert "unverified" not in page
    assert "a program on your computer" in page


@pytest.mark.parametrize(
    "wrong",
    [
        {"client_id": "https://other.example/program.json"},
        {"redirect_uris": ["javascript:alert(1)"]},
        {"redirect_uris": []},
        {"redirect_uris": "https://a.example/cb"},
        {"client_name": ["x"]},
    ],
)
def test_wrong_document_is_refused(
    documents: HTTPServer, alice: User, mailbox: Mailbox, wrong: dict[str, Any]
) -> None:
    program = serve(documents, **wrong)
    assert allow(alice, program.address(), mailbox).status_code == 400
    assert not Registered.objects.exists()


@pytest.mark.parametrize(("status", "more"), [(301, 0), (302, 0), (404, 0), (500, 0), (200, 9000)])
def test_only_a_short_document_at_its_own_address_counts(
    documents: HTTPServer, alice: User, mailbox: Mailbox, status: int, more: int
) -> None:
    """A redirect could lead to a host that only the server can reach."""
    address = address_of(documents)
    document = {"client_id": address, "client_name": "Known", "redirect_uris": [BACK]}
    documents.expect_request(PATH).respond_with_data(
        json.dumps(document) + " " * more,
        status=status,
        headers={"Location": "https://localhost/elsewhere"},
    )
    answer = allow(alice, Program(client_id=address).address(), mailbox)
    assert answer.status_code == 400
    assert len(documents.log) == 1


@pytest.mark.parametrize(
    "address",
    [
        "https://127.0.0.1:{port}/program.json", "https://localhost:{port}/program.json",
        "https://[::1]:{port}/program.json", "https://[::ffff:127.0.0.1]:{port}/program.json",
        "https://2130706433:{port}/program.json", "https://169.254.169.254/latest",
        "https://10.0.0.1/x", "https://168.63.129.16/x", "https://user@localhost:{port}/x",
        "https://localhost:{port}/../x", "https://localhost:{port}/x?y=1", "https://localhost:{port}",
        "https:///x", "https://localhost:0/x", "https://localhost:999999/x", "https://[/x",
        "https://93.184.216.34:22/x",
    ],
)  # fmt: skip
def test_document_on_an_inner_host_is_never_read(
    documents: HTTPServer, alice: User, mailbox: Mailbox, settings: Any, address: str
) -> None:
    settings.MAILHUB_LOOPBACK_FOR_PEOPLE = frozenset()
    program = Program(client_id=address.format(port=documents.port))
    assert allow(alice, program.address(), mailbox).status_code == 400
    assert program.http.post(
        "/oauth/device/code", {"client_id": program.client_id}
    ).status_code in (400, 401)
    assert not documents.log
    assert not Registered.objects.exists()
    assert not ApiToken.objects.exists()


def test_address_with_letters_that_look_alike_is_refused(alice: User, mailbox: Mailbox) -> None:
    address = "https://ex\u0430mple.com/program.json"  # a Cyrillic letter
    Registered.objects.create(id=address, name="Known", type=Registered.Type.PUBLIC)
    program = Program(client_id=address)
    assert browser(alice).get(program.address()).status_code == 400


def test_reading_documents_is_limited(documents: HTTPServer, alice: User, mailbox: Mailbox) -> None:
    documents.expect_request(PATH).respond_with_data(status=404)
    program = Program(client_id=address_of(documents))
    window = browser(alice)
    for _ in range(25):
        assert window.get(program.address()).status_code == 400
    assert len(documents.log) == 20


@pytest.mark.parametrize(("hosts", "status"), [(["localhost"], 302), (["claude.ai"], 400)])
def test_staff_restrict_documents_by_host(
    documents: HTTPServer, alice: User, mailbox: Mailbox, settings: Any, hosts: Any, status: int
) -> None:
    settings.MAILHUB_OAUTH_REGISTRATION, settings.MAILHUB_OAUTH_HOSTS = "listed", hosts
    program = serve(documents)
    assert allow(alice, program.address(), mailbox).status_code == status
    assert bool(documents.log) is (status == 302)


def test_program_cannot_register_as_a_document(db: None) -> None:
    answer = Program().register(client_id="https://claude.ai/client.json", redirect_uris=[BACK])
    assert answer.status_code == 201
    assert not answer.json()["client_id"].startswith("http")
