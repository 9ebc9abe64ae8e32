"""Every row of the list of faults that the gate and its workers must stand is named by a test."""

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.static
TESTS = Path(__file__).parent.parent
# Proposal, approval, queue and worker; Graph and Gmail; SMTP and IMAP; tokens at rest and renewed.
ROWS = [*range(1, 49), 58, 59]
# In the name of a test function, or in the id of one of its parameters.
NAMED = re.compile(r"def test_row(\d+)_|id=\"row(\d+)-")


def test_every_row_stands_in_the_name_of_a_test() -> None:
    named = {
        int(function or parameter)
        for path in TESTS.rglob("test_*.py")
        for function, parameter in NAMED.findall(path.read_text())
    }
    assert not set(ROWS) - named
