"""The coverage-guided fuzzer: `python -m tests.fuzz mail 60` fuzzes the target for 60 minutes.

It ends by itself and prints its figures. Inputs that fail, or cost too much, are in
test-output/fuzz/findings; those that reach new code are in test-output/fuzz/corpus.
"""

import hashlib
import os
import random
import sys
import time
import traceback
from pathlib import Path

import atheris

with atheris.instrument_imports(
    include=["tools", "email", "inscriptis", "html", "imapclient", "icalendar"]
):
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    import django

    django.setup()
    from tests.fuzz import changes, seeds, targets

OUTPUT = Path("test-output/fuzz")
HANGS_SECONDS = 20  # of wall time: the fuzzer ends such an input itself
SLOWER = 3.0  # the code that reports its coverage, and a page is read in three ways
OWN_CODE = ("tools", "accounts")


class Run:
    """The figures of a run, and the findings that differ."""

    def __init__(self, target: str, minutes: float) -> None:
        self.target = target
        self.read = targets.TARGETS[target]
        self.end = time.monotonic() + minutes * 60
        self.started = time.monotonic()
        self.executions = 0
        self.slowest = targets.Cost(seconds=0, memory=0)
        self.largest = targets.Cost(seconds=0, memory=0)
        self.findings: dict[str, int] = {}
        (OUTPUT / "findings").mkdir(parents=True, exist_ok=True)

    def test(self, source: bytes) -> None:
        self.executions += 1
        try:
            cost = targets.measure(self.read, source)
        except Exception as error:
            self._keep(_name_failure(error), source)
            return
        if cost.seconds > self.slowest.seconds:
            self.slowest = cost
            (OUTPUT / f"slowest-{self.target}").write_bytes(source)
        if cost.memory > self.largest.memory:
            self.largest = cost
            (OUTPUT / f"largest-{self.target}").write_bytes(source)
        if cost.seconds > SLOWER * targets.MOST_SECONDS or cost.memory > targets.MOST_MEMORY:
            self._keep("cost", source)
        if time.monotonic() > self.end:
            self.report()
            os._exit(0)

    def report(self) -> None:
        seconds = time.monotonic() - self.started
        print(f"target {self.target}: {self.executions} executions in {seconds:.0f} s")  # noqa: T201
        print(f"slowest: {self.slowest.seconds:.3f} s of processor time")  # noqa: T201
        print(f"largest: {self.largest.memory / targets.MEGABYTE:.1f} MB above those in use")  # noqa: T201
        for name, count in self.findings.items():
            print(f"finding: {name}, {count} times")  # noqa: T201
        sys.stdout.flush()

    def _keep(self, name: str, source: bytes) -> None:
        if name not in self.findings:
            digest = hashlib.sha256(source).hexdigest()[:8]
            (OUTPUT / "findings" / f"{self.target}-{digest}").write_bytes(source)
            print(f"FINDING {self.target}-{digest}: {name}", flush=True)  # noqa: T201
        self.findings[name] = self.findings.get(name, 0) + 1


def _name_failure(error: BaseException) -> str:
    """Return the class of the error and the last line of our own code that it passed."""
    own = [
        f"{Path(frame.filename).name}:{frame.lineno}"
        for frame in traceback.extract_tb(error.__traceback__)
        if f"{os.sep}site-packages{os.sep}" not in frame.filename
        and any(f"{os.sep}{name}{os.sep}" in frame.filename for name in OWN_CODE)
    ]
    return f"{type(error).__name__} at {own[-1] if own else 'the test itself'}"


def change_input(source: bytes, most: int, seed: int) -> bytes:
    draw = random.Random(seed)
    if not source or draw.random() < 0.5:
        return bytes(atheris.Mutate(source, most))
    drawn = [
        (draw.choice(changes.CHANGES), draw.getrandbits(32)) for _ in range(draw.randint(1, 4))
    ]
    return changes.apply(source, drawn)[:most]


def main() -> None:
    target, minutes = sys.argv[1], float(sys.argv[2])
    run = Run(target, minutes)
    corpus = OUTPUT / "corpus" / target
    corpus.mkdir(parents=True, exist_ok=True)
    for source in seeds.list_seeds(target):
        (corpus / hashlib.sha1(source).hexdigest()).write_bytes(source)
    options = [f"-max_len={seeds.LARGEST}", f"-timeout={HANGS_SECONDS}", "-rss_limit_mb=2048"]
    prefix = f"-artifact_prefix={OUTPUT}/findings/"
    atheris.Setup(
        [sys.argv[0], *options, prefix, str(corpus)], run.test, custom_mutator=change_input
    )
    atheris.Fuzz()


if __name__ == "__main__":
    main()
