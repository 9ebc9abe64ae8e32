"""A comparison of libraries that detect charsets, for docs/dev/charsets.md.

`python -m tests.bench.charsets` prints the table. A library that is not installed is left out; only
chardet is a requirement.
"""

import time
import warnings
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from tests.tools.charset_samples import Sample, list_samples
from tools.mail.text.charsets import codec_of
from tools.mail.text.decoding import text_of
from tools.mail.text.detection import CANDIDATES

LENGTHS = ("header", "3", "8", "20", "60", "western")
Detect = Callable[[bytes], str | None]


def read_by(detect: Detect) -> Callable[[bytes], str | None]:
    """Return a function that decodes with the detected charset, as browsers read its name."""

    def read(content: bytes) -> str | None:
        codec = codec_of(detect(content) or "")
        try:
            return content.decode(codec) if codec else None
        except UnicodeError:
            return None

    return read


def list_readers() -> dict[str, Callable[[bytes], str | None]]:
    found: dict[str, Callable[[bytes], str | None]] = {
        "mailhub: chardet, plausible charsets, a rule for signs": lambda content: text_of(
            content, ""
        )
    }
    for module, detectors in (
        ("chardet", _list_chardet),
        ("charset_normalizer", _list_normalizer),
        ("chardetng_py", _list_chardetng),
        ("cchardet", _list_cchardet),
        ("magic", _list_magic),
    ):
        if find_spec(module):
            found |= {
                name: read_by(detect) for name, detect in detectors(import_module(module)).items()
            }
    return found


def _list_chardet(chardet: Any) -> dict[str, Detect]:
    return {
        "chardet": lambda content: chardet.detect(content)["encoding"],
        "chardet, plausible charsets": lambda content: chardet.detect(
            content, include_encodings=CANDIDATES, compat_names=False
        )["encoding"],
    }


def _list_normalizer(normalizer: Any) -> dict[str, Detect]:
    def detect(content: bytes, **options: Any) -> str | None:
        best = normalizer.from_bytes(content, **options).best()
        return best.encoding if best else None

    return {
        "charset-normalizer": detect,
        "charset-normalizer, plausible charsets": lambda content: detect(
            content, cp_isolation=[codec_of(each) for each in CANDIDATES]
        ),
    }


def _list_chardetng(chardetng: Any) -> dict[str, Detect]:
    def detect(content: bytes) -> str:
        detector = chardetng.EncodingDetector()
        detector.feed(content, last=True)
        return str(detector.guess(tld=None, allow_utf8=False))

    return {"chardetng (Firefox)": detect}


def _list_cchardet(cchardet: Any) -> dict[str, Detect]:
    return {"faust-cchardet (uchardet)": lambda content: cchardet.detect(content)["encoding"]}


def _list_magic(magic: Any) -> dict[str, Detect]:
    return {"libmagic": magic.Magic(mime_encoding=True).from_buffer}


def count_read(read: Callable[[bytes], str | None]) -> Counter[str]:
    """Return the number of texts that are read right, by length."""
    return Counter(
        sample.length for sample in list_samples() if read(sample.content) == sample.text
    )


def main() -> None:
    warnings.simplefilter("ignore")
    samples: tuple[Sample, ...] = list_samples()
    total = Counter(sample.length for sample in samples)
    print(f"| {len(samples)} texts | all | {' | '.join(LENGTHS)} | ms |")  # noqa: T201
    print(f"| --- {'| --- ' * (len(LENGTHS) + 2)}|")  # noqa: T201
    for name, read in list_readers().items():
        read(samples[0].content)  # the tables are loaded
        started = time.process_time()
        right = count_read(read)
        cost = (time.process_time() - started) * 1000 / len(samples)
        cells = [f"{right[length] / total[length]:.1%}" for length in LENGTHS]
        share = f"{right.total() / total.total():.1%}"
        print(f"| {name} | {share} | {' | '.join(cells)} | {cost:.2f} |")  # noqa: T201


if __name__ == "__main__":
    main()
