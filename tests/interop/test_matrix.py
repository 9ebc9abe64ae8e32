"""Every operation on every server, compared with the page of the results."""

import pytest

from tests.interop.matrix import OPERATIONS, REMARKS, SERVERS, render
from tests.support.people.office import Office, opened
from tests.support.processes.programs import PROJECT


@pytest.mark.long
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("name", SERVERS)
def test_every_operation_has_the_result_of_the_page(
    name: str, request: pytest.FixtureRequest
) -> None:
    server = request.getfixturevalue(name)
    failed = {}
    with opened(server) as office:
        # The folders come last: the other operations create them.
        for operation, each in OPERATIONS.items():
            try:
                each.run(office)
            except AssertionError as error:
                failed[operation] = str(error)[:300]
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
