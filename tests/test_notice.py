"""NOTICE names the licence of everything that is shipped beside mailhub."""

import re
import runpy
import sys
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.static
ROOT = Path(__file__).parent.parent
# Files of a package that others have usually made.
FOREIGN = re.compile(
    r"\.(woff2?|[ot]tf|dat|pem)$|\.libs/|[./-](min|standalone|bundle)\.js$|/vendor/.*\.js$"
)


@pytest.fixture(scope="module")
def notice() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "bin/notice"))


def test_notice_is_current(notice: dict[str, Any]) -> None:
    written = (ROOT / "NOTICE").read_text()
    assert written == notice["write_notice"](), "run .venv/bin/python bin/notice"


def test_notice_names_fonts_scripts_and_libraries(notice: dict[str, Any]) -> None:
    paths = tuple(path for path, _, _ in notice["PARTS"])
    files = [
        str(file) for name in notice["list_packages"]() for file in distribution(name).files or ()
    ]
    assert [each for each in files if FOREIGN.search(each) and not each.startswith(paths)] == []
    if sys.platform == "linux":  # elsewhere the packages hold other libraries
        assert [path for path in paths if not any(each.startswith(path) for each in files)] == []


def test_own_static_files_hold_nothing_of_others() -> None:
    assert [
        path
        for path in (ROOT / "mailhub/static").rglob("*")
        if path.is_file()
        and (
            FOREIGN.search(path.as_posix())
            or (path.suffix in {".js", ".css"} and "copyright" in path.read_text().lower())
        )
    ] == []
