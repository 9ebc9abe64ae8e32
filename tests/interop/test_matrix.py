"""Every operation on every server, compared with the page of the results."""

import pytest

from tests.accounts.scripted_servers import trusted
from tests.interop import matrix, sending
from tests.interop.page import REMARKS, render
from tests.support.people.office import Office, opened
from tests.support.processes.programs import PROJECT
from tests.support.servers.certificates import Authority, authority
from tests.support.servers.dovecot import Dovecot
from tests.support.servers.exim import Exim
from tests.support.servers.postfix import Postfix
from tests.support.servers.smtp_service import skip_without_senders

__all__ = ["authority", "trusted"]
SENDERS = {"postfix": Postfix, "exim": Exim}


@pytest.mark.long
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("name", matrix.SERVERS)
def test_every_operation_has_the_result_of_the_page(
    name: str, request: pytest.FixtureRequest
) -> None:
    server = request.getfixturevalue(name)
    failed = {}
    with opened(server) as office:
        # The folders come last: the other operations create them.
        for operation, each in matrix.OPERATIONS.items():
            try:
                each.run(office)
            except AssertionError as error:
                failed[operation] = str(error)[:300]
            office.smtp.ledger.clear()
            clear(office)
    expected = {operation for on, operation in REMARKS if on == name}
    assert set(failed) == expected, failed


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("name", sending.SERVERS)
def test_every_sending_server_has_the_result_of_the_page(
    name: str, dovecot: Dovecot, trusted: Authority
) -> None:
    skip_without_senders()
    failed = {}
    passwords = dovecot.folder / "passwords"
    with opened(dovecot, lambda port: SENDERS[name](port, trusted, passwords)) as office:
        assert office.sender
        for operation, each in sending.OPERATIONS.items():
            try:
                each.run(office)
            except AssertionError as error:
                failed[operation] = str(error)[:300]
            office.sender.heal()
            office.smtp.ledger.clear()
            clear(office)
    expected = {operation for on, operation in REMARKS if on == name}
    assert set(failed) == expected, failed


def clear(office: Office) -> None:
    """Remove all mail."""
    for address in (office.ada, office.mira):
        client = office.imap.signed_in(address)
        for folder in [each for _, _, each in client.list_folders()]:
            client.select_folder(folder)
            client.delete_messages(client.search())
            client.expunge()


def test_page_is_as_the_matrix_renders_it() -> None:
    assert (PROJECT / "docs/dev/interop.md").read_text() == render()
