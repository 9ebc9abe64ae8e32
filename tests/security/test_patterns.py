"""Regular expressions on foreign text take time in proportion to its length, however the text is
built.
"""

import re

import pytest

from tests.security.linear_time import is_linear, slow_with
from tests.security.patterns import COMMAND, every_pattern, proven, slow

pytestmark = pytest.mark.static


def test_new_pattern_takes_time_linear_in_its_text() -> None:
    listed = proven()
    assert slow(each for each in every_pattern() if each.key not in listed) == []


def test_list_of_proven_patterns_has_no_old_ones() -> None:
    assert proven() - {each.key for each in every_pattern()} == set(), f"run `{COMMAND}`"


@pytest.mark.long
@pytest.mark.timeout(1_200)  # a minute of CPU
def test_every_pattern_takes_time_linear_in_its_text() -> None:
    assert slow(every_pattern()) == []


@pytest.mark.parametrize(
    "unsafe",
    [
        r"(a|aa)+b",  # exponential
        r"<[^>]*>",  # quadratic
        *(
            pytest.param(each, marks=pytest.mark.long)
            for each in (r"\s*x", r"(?m)^\s*(?:#+\s*)?system", r"^(?:\s*re\s*:\s*)+$")
        ),
    ],
)
def test_unsafe_pattern_is_noticed(unsafe: str) -> None:
    assert slow_with(re.compile(unsafe), searched=True)


def test_slow_moments_of_the_machine_are_no_fault() -> None:
    moments = iter([*[(0.001, 0.016, 0.0001)] * 5, *[(0.002, 0.005, 0.0002)] * 5])
    assert is_linear(lambda: next(moments))
    assert not is_linear(lambda: (0.001, 0.016, 0.0001))  # quadratic
    assert not is_linear(lambda: (0.05, 0.2, 0.0001))  # linear, but slow
