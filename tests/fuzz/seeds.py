"""The inputs that fuzzing begins with: the messages of the corpus, and the cases of earlier findings."""

from collections.abc import Sequence
from pathlib import Path

TESTS = Path(__file__).parent.parent
CASES = TESTS / "fuzz" / "cases"
LARGEST = 64 * 1024
STRUCTURES = (
    b'("text" "plain" ("charset" "utf-8") NIL NIL "7bit" 12 1 NIL NIL NIL NIL)',
    b'(("text" "plain" NIL NIL NIL "8bit" 1 1)("text" "html" ("charset" "x") NIL NIL "base64" 9 1) "alternative")',
    b'(("text" "plain" NIL NIL NIL "8bit" 1 1)("application" "pdf" ("name" "a.pdf") "<c>" NIL "base64" 9 NIL'
    b' ("attachment" ("filename*0*" "utf-8\'\'%C3%BC" "filename*1" ".pdf"))) "mixed" ("boundary" "b") NIL)',
    b'("message" "rfc822" NIL NIL NIL "7bit" 99 (NIL "s" NIL NIL NIL NIL NIL NIL NIL NIL)'
    b' ("text" "plain" NIL NIL NIL "8bit" 1 1) 5)',
)


def list_seeds(target: str) -> Sequence[bytes]:
    """Return the inputs that fuzzing of this target begins with."""
    begin = STRUCTURES if target == "structure" else list_mails()
    return [*begin, *list_cases(target)]


def list_mails() -> Sequence[bytes]:
    """Return the messages of the corpus that are not too large to be changed often."""
    sources = (path.read_bytes() for path in sorted((TESTS / "corpus").rglob("*.eml")))
    return [source for source in sources if 0 < len(source) <= LARGEST]


def list_cases(target: str) -> Sequence[bytes]:
    """Return the inputs that once failed in this target."""
    return [path.read_bytes() for path in sorted(CASES.glob(f"{target}-*"))]
