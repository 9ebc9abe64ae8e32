"""The security documents are complete, and name existing tests."""

import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ASVS = ROOT / "docs" / "dev" / "asvs.md"
DOCUMENTS = [ASVS, ROOT / "docs" / "operate" / "security.md", ROOT / "SECURITY.md"]
STATES = {"holds", "partly", "not met", "not applicable"}
# The number of requirements of levels 1 and 2 in each section of ASVS 5.0.0. They are numbered from
# 1 without a gap.
SECTIONS = (
    "V1.1:2 V1.2:9 V1.3:11 V1.4:3 V1.5:2 V2.1:3 V2.2:3 V2.3:4 V2.4:1 V3.2:2 V3.3:4 V3.4:6 V3.5:5 V3.7:2 V4.1:3 "
    "V4.2:1 V4.3:2 V4.4:4 V5.1:1 V5.2:3 V5.3:2 V5.4:3 V6.1:3 V6.2:12 V6.3:4 V6.4:4 V6.5:5 V6.6:3 V6.8:4 V7.1:3 "
    "V7.2:4 V7.3:2 V7.4:5 V7.5:2 V7.6:2 V8.1:2 V8.2:3 V8.3:1 V8.4:1 V9.1:3 V9.2:4 V10.1:2 V10.2:2 V10.3:4 "
    "V10.4:11 V10.5:5 V10.6:2 V10.7:3 V11.1:2 V11.2:3 V11.3:3 V11.4:4 V11.5:1 V11.6:1 V12.1:3 V12.2:2 V12.3:4 "
    "V13.1:1 V13.2:5 V13.3:2 V13.4:5 V14.1:2 V14.2:4 V14.3:3 V15.1:3 V15.2:3 V15.3:7 V16.1:1 V16.2:5 V16.3:4 "
    "V16.4:3 V16.5:3 V17.1:1 V17.2:4 V17.3:2 "
)
ROW = re.compile(r"^\| (V\d+\.\d+\.\d+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", re.M)


def test_table_has_each_requirement_once() -> None:
    numbers = [
        f"{section}.{number}"
        for section, count in (each.split(":") for each in SECTIONS.split())
        for number in range(1, int(count) + 1)
    ]
    text = ASVS.read_text()
    assert [row[0] for row in ROW.findall(text)] == numbers
    assert len(numbers) == 253
    assert text.count("\n| V") == 253, "a row that cannot be read"


def test_each_row_has_a_state_and_a_test_or_reason() -> None:
    rows = ROW.findall(ASVS.read_text())
    assert {state for _, _, state, _ in rows} == STATES
    assert all(proof.strip() for _, _, _, proof in rows)
    said = dict(re.findall(r"^\| ([a-z ]+) \| (\d+) \|$", ASVS.read_text(), re.M))
    assert Counter(state for _, _, state, _ in rows) == {
        state: int(number) for state, number in said.items()
    }


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_named_file_exists(document: Path) -> None:
    text = document.read_text()
    named = re.findall(r"`((?:tests|docs|accounts|approvals|tools|mailhub)/[\w./-]+\.\w+)`", text)
    linked = [
        link.partition("#")[0] for link in re.findall(r"\]\(([^)]+)\)", text) if "://" not in link
    ]
    missing = [name for name in named if not (ROOT / name).exists()]
    missing += [link for link in linked if not (document.parent / link).exists()]
    assert missing == []
