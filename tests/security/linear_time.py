"""Hostile strings built from the grammar of a pattern, and whether one takes more than linear time."""

import importlib
import math
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

# The first shows an exponential pattern, the last a quadratic one.
SIZES = (24, 36, 52, 76, 110, 6_000)
UNNOTICED = 0.003  # seconds of CPU; shorter times are not compared
GROWTH = 8.0  # in time, from one size to one four times as large: 4 is linear, 16 is quadratic
# A plain scan of the same text. The patterns of the product take up to 130 times as long, so one
# that takes 500 times as long is slow without a further look.
REFERENCE = "(?:[a-m]|[^a-m])*+"
SLOWEST = 500  # in times of the reference
# Other processes make a machine slow for moments, so the best of several measurements counts. A
# pattern that seems slow is measured again.
AT_LEAST, AT_MOST = 3, 20  # measurements
ENDS = ("", "\0", "!", "\n", "a")

# The tree of a pattern, as the standard library parses it.
grammar: Any = importlib.import_module("re._parser")
ops: Any = importlib.import_module("re._constants")


@dataclass(frozen=True)
class Recipe:
    """A hostile string of any length."""

    prefix: str
    repeated: str
    end: str

    def text(self, length: int) -> str:
        return self.prefix + self.repeated * (length // len(self.repeated) + 1) + self.end


def slow_with(pattern: "re.Pattern[Any]", *, searched: bool) -> list[Recipe]:
    """Return the first recipe whose text takes too long, or longer than in proportion to its
    length.
    """
    of_bytes = isinstance(pattern.pattern, bytes)
    reference: re.Pattern[Any] = re.compile(REFERENCE.encode() if of_bytes else REFERENCE)

    def seconds(recipe: Recipe, size: int, pattern: "re.Pattern[Any]", searched: bool) -> float:
        text: Any = recipe.text(size)
        text = text.encode("latin-1", "replace") if of_bytes else text
        started = time.thread_time()
        pattern.fullmatch(text)
        if searched:
            for _ in pattern.finditer(text):
                pass
        return time.thread_time() - started

    def is_slow(recipe: Recipe, size: int) -> bool:
        return seconds(recipe, size, pattern, searched) > UNNOTICED and not is_linear(
            lambda: (
                seconds(recipe, size // 4, pattern, searched),
                seconds(recipe, size, pattern, searched),
                seconds(recipe, size, reference, False),
            )
        )

    for recipe in recipes(pattern):
        if any(is_slow(recipe, size) for size in SIZES):
            return [recipe]
    return []


def is_linear(measure: Callable[[], tuple[float, float, float]]) -> bool:
    """Return True if a text takes a time in proportion to that of a quarter of it.

    `measure` returns the seconds for the quarter, for the whole text and for the reference. They
    are measured by turns, so that a slow moment of the machine reaches all three.
    """
    best: tuple[float, ...] = (math.inf, math.inf, math.inf)
    for times in range(1, AT_MOST + 1):
        quarter, whole, plain = best = tuple(map(min, best, measure()))
        if times >= AT_LEAST:
            if whole > max(UNNOTICED, plain * SLOWEST):
                return False
            if whole <= max(UNNOTICED, quarter * GROWTH):
                return True
    return False


def recipes(pattern: "re.Pattern[Any]") -> list[Recipe]:
    """Return repetitions of each token, of pairs of tokens, of whole matches, and of each way up to
    a repetition.
    """
    tree = grammar.parse(pattern.pattern, pattern.flags & ~re.DEBUG)
    tokens = list(dict.fromkeys([*_tokens(tree), " ", "\n", "a"]))
    whole = _samples(tree)
    repeated = [*tokens[:40], *(a + b for a in tokens[:8] for b in tokens[:8] if a != b)]
    repeated += [*whole, *(each[:-1] for each in whole)]
    found = [Recipe("", each, end) for each in repeated for end in ("", "\0")]
    for prefix, pump in dict.fromkeys(_repetitions(tree, "")):
        if pump:
            found += [Recipe(prefix, pump, end) for end in ENDS]
            found += [Recipe("", prefix + pump, ""), Recipe("", prefix + pump * 8, "\0")]
    return [each for each in dict.fromkeys(found) if each.repeated]


def _samples(tree: Any) -> list[str]:
    """Return some strings that the tree accepts, or nearly accepts."""
    found = [""]
    for node in tree:
        options = _samples_of(node)[:6] or [""]
        found = [
            *(found[0] + option for option in options),
            *(each + options[0] for each in found[1:]),
        ][:12]
    return found


def _samples_of(node: Any) -> list[str]:
    op, value = node
    if op in (ops.LITERAL, ops.NOT_LITERAL):
        return [chr(value) if op is ops.LITERAL else _other({chr(value)})]
    if op is ops.IN:
        return _of_class(value)
    if op is ops.ANY:
        return ["a", " "]
    if op in (ops.MAX_REPEAT, ops.MIN_REPEAT, ops.POSSESSIVE_REPEAT):
        least = max(value[0], 1)
        return [each * least for each in _samples(value[2])]
    if op is ops.SUBPATTERN:
        return _samples(value[3])
    if op is ops.ATOMIC_GROUP:
        return _samples(value)
    if op is ops.BRANCH:
        return [each for branch in value[1] for each in _samples(branch)[:2]]
    return [""]


def _of_class(members: Any) -> list[str]:
    named = {
        ops.CATEGORY_SPACE: " ",
        ops.CATEGORY_DIGIT: "1",
        ops.CATEGORY_WORD: "a",
        ops.CATEGORY_NOT_SPACE: "a",
        ops.CATEGORY_NOT_DIGIT: "a",
        ops.CATEGORY_NOT_WORD: "-",
    }
    found: list[str] = []
    for op, value in members:
        if op is ops.LITERAL:
            found.append(chr(value))
        elif op is ops.RANGE:
            found += [chr(value[0]), chr(value[1])]
        elif op is ops.CATEGORY:
            found.append(named.get(value, "a"))
    if members and members[0][0] is ops.NEGATE:
        return [_other(set(found)), *([" "] if " " not in found else [])]
    return found[:4]


def _other(excluded: set[str]) -> str:
    return next(each for each in "a1 .:/-_x\t" if each not in excluded)


def _tokens(tree: Any) -> Iterator[str]:
    for node in tree:
        yield from (each for each in _samples_of(node) if each)
        for inner in _inner(node):
            yield from _tokens(inner)


def _inner(node: Any) -> list[Any]:
    op, value = node
    if op in (ops.MAX_REPEAT, ops.MIN_REPEAT, ops.POSSESSIVE_REPEAT):
        return [value[2]]
    if op is ops.SUBPATTERN:
        return [value[3]]
    if op is ops.ATOMIC_GROUP:
        return [value]
    if op is ops.BRANCH:
        return list(value[1])
    if op in (ops.ASSERT, ops.ASSERT_NOT):
        return [value[1]]
    return []


def _repetitions(tree: Any, prefix: str) -> Iterator[tuple[str, str]]:
    """Yield each repetition: a string that leads up to it, and the repeated string."""
    for node in tree:
        op, value = node
        if op in (ops.MAX_REPEAT, ops.MIN_REPEAT, ops.POSSESSIVE_REPEAT):
            for pump in _samples(value[2])[:4]:
                yield prefix, pump
        for inner in _inner(node):
            yield from _repetitions(inner, prefix)
        prefix += (_samples_of(node) or [""])[0]
