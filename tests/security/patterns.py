"""Every regular expression of the project, and hostile strings built from the grammar of each
one.
"""

import ast
import importlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGES = ("accounts", "approvals", "tools", "mailhub")
# Patterns that are made of a value at run time, here with a harmless value.
MADE_AT_RUN_TIME = {
    "tools/providers/gmail/batches.py": rb"(?:\A|\r?\n)--batch_x(?:--)?[ \t]*(?=\r?\n|\Z)"
}
ENDS = ("", "\0", "!", "\n", "a")

# The tree of a pattern, as the standard library parses it.
grammar: Any = importlib.import_module("re._parser")
ops: Any = importlib.import_module("re._constants")


def every_pattern() -> dict[str, "re.Pattern[Any]"]:
    """Return all patterns by their place: module values by name, patterns inside functions by file
    and line.
    """
    found: dict[str, re.Pattern[Any]] = {}
    for path in _sources():
        calls = list(_calls(ast.parse(path.read_text())))
        if calls:
            name = str(path.relative_to(ROOT))
            module = importlib.import_module(name.removesuffix(".py").replace("/", "."))
            found |= {
                f"{name}: {where}": pattern for where, pattern in _values(vars(module), module)
            }
            found |= {
                f"{name}:{call.lineno}": _compiled(call, module, name)
                for call in calls
                if _is_inside(call)
            }
    return found


def _sources() -> list[Path]:
    return [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]


def whole_texts_only() -> set[str]:
    """Return the names of the patterns that are compared with a whole text, and never used for a
    search.
    """
    uses: dict[str, set[str]] = {}
    for path in _sources():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute):
                name = (
                    node.value.id
                    if isinstance(node.value, ast.Name)
                    else getattr(node.value, "attr", "")
                )
                uses.setdefault(name, set()).add(node.attr)
    return {
        name for name, used in uses.items() if name.lstrip("_").isupper() and used == {"fullmatch"}
    }


def _calls(tree: ast.Module) -> Iterator[ast.Call]:
    """Yield calls of `re.compile`, `re.sub` and so on; each records whether it is inside a
    function.
    """
    inside = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for node in ast.walk(function)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            of = node.func.value
            if (
                isinstance(of, ast.Name)
                and of.id == "re"
                and node.func.attr not in ("escape", "error")
            ):
                node.is_inside = id(node) in inside  # type: ignore[attr-defined]
                yield node


def _is_inside(call: ast.Call) -> bool:
    return bool(getattr(call, "is_inside", False))


def _compiled(call: ast.Call, module: ModuleType, name: str) -> "re.Pattern[Any]":
    """Return the pattern of a call, evaluated with the names of its module.

    Raise NameError for a pattern made at run time that is not listed above.
    """
    try:
        written = eval(compile(ast.Expression(call.args[0]), name, "eval"), vars(module))
    except NameError:
        if name not in MADE_AT_RUN_TIME:
            raise
        written = MADE_AT_RUN_TIME[name]
    given = [keyword.value for keyword in call.keywords if keyword.arg == "flags"]
    places = {"compile": 1, "sub": 4, "subn": 4, "split": 3}
    given += call.args[places.get(str(getattr(call.func, "attr", "")), 2) :]
    flags = eval(compile(ast.Expression(given[0]), name, "eval"), vars(module)) if given else 0
    return re.compile(written, flags)


def _values(
    names: Iterable[Any] | dict[str, Any], module: ModuleType, depth: int = 0
) -> Iterator[tuple[str, Any]]:
    """Yield the patterns in a module's values, in tuples and tables, and in its classes."""
    items = names.items() if isinstance(names, dict) else enumerate(names)
    for name, value in items:
        if isinstance(value, re.Pattern):
            yield str(name), value
        elif (
            isinstance(value, tuple | list | set | frozenset | dict)
            and depth < 3
            and name != "__builtins__"
        ):
            yield from (
                (f"{name}[{inner}]", each) for inner, each in _values(value, module, depth + 1)
            )
        elif isinstance(value, type) and value.__module__ == module.__name__:
            yield from (
                (f"{name}.{inner}", each)
                for inner, each in _values(dict(vars(value)), module, depth + 1)
            )


@dataclass(frozen=True)
class Recipe:
    """A hostile string of any length."""

    prefix: str
    repeated: str
    end: str

    def text(self, length: int) -> str:
        return self.prefix + self.repeated * (length // len(self.repeated) + 1) + self.end


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
