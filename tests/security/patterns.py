"""Every regular expression of the project, and the list of those that are proven to be linear."""

import ast
import hashlib
import importlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.security import linear_time
from tests.support.sources import ROOT, parsed, product

# Patterns that are made of a value at run time, here with a harmless value.
MADE_AT_RUN_TIME = {
    "tools/providers/gmail/batches.py": rb"(?:\A|\r?\n)--batch_x(?:--)?[ \t]*(?=\r?\n|\Z)"
}
LIST = Path(__file__).with_name("proven_patterns.txt")
COMMAND = "python -m tests.security.prove_patterns"
SHOWN = 80  # characters of a pattern


@dataclass(frozen=True)
class Found:
    """A pattern with its place: the name of a module value, or file and line inside a function."""

    place: str
    pattern: "re.Pattern[Any]"
    searched: bool

    @cached_property
    def key(self) -> str:
        """Return a hash of all that its proof depends on, except the recipes."""
        parts = (self.pattern.pattern, int(self.pattern.flags), self.searched)
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def recipes_version() -> str:
    """Return a hash of the module that decides which patterns are linear."""
    return hashlib.sha256(Path(linear_time.__file__).read_bytes()).hexdigest()[:16]


def proven() -> set[str]:
    """Return the keys in the list. Raise ValueError if other recipes proved them."""
    head, *lines = [
        line for line in LIST.read_text().splitlines() if line and not line.startswith("#")
    ]
    if head != f"recipes {recipes_version()}":
        raise ValueError(f"The recipes are not those of {LIST.name}: run `{COMMAND}`")
    return {line.split(" ", 1)[0] for line in lines}


def write_list(patterns: Iterable[Found]) -> None:
    """Write the list, sorted by the text of the patterns, so that a diff shows which are new."""
    lines = set()
    for each in patterns:
        use = "searched" if each.searched else "whole"
        lines.add(f"{each.key} {use} {each.pattern.pattern!a:.{SHOWN}}".rstrip())
    lines_by_text = sorted(lines, key=lambda line: line.split(" ", 2)[::-1])
    head = f"# Patterns that take linear time with every recipe. `{COMMAND}` writes this list."
    LIST.write_text("\n".join([head, f"recipes {recipes_version()}", *lines_by_text, ""]))


def slow(patterns: Iterable[Found]) -> list[str]:
    """Return the place of each pattern that is too slow, with the text that shows it."""
    return [
        f"{each.place}: {recipe}"
        for each in {each.key: each for each in patterns}.values()
        for recipe in linear_time.slow_with(each.pattern, searched=each.searched)
    ]


@cache
def every_pattern() -> list[Found]:
    """Return all patterns of the product."""
    whole = _whole_texts_only()
    found: list[Found] = []
    for path, tree in parsed(r"\bre\.[a-z]+\("):
        calls = list(_calls(tree))
        if calls:
            name = str(path.relative_to(ROOT))
            module = importlib.import_module(name.removesuffix(".py").replace("/", "."))
            found += [
                Found(f"{name}: {where}", pattern, searched=where not in whole)
                for where, pattern in _values(vars(module), module)
            ]
            found += [
                Found(f"{name}:{call.lineno}", _compiled(call, module, name), searched=True)
                for call, is_inside in calls
                if is_inside
            ]
    return found


def _whole_texts_only() -> set[str]:
    """Return the names of patterns that are compared with a whole text, never searched."""
    names = {
        name
        for text in product().values()
        for name in re.findall(r"(\w+)\s*\.fullmatch\b", text)
        if name.lstrip("_").isupper()
    }
    uses: dict[str, set[str]] = {}
    for _, tree in parsed(rf"\b(?:{'|'.join(sorted(names))})\b"):
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute):
                name = (
                    node.value.id
                    if isinstance(node.value, ast.Name)
                    else getattr(node.value, "attr", "")
                )
                uses.setdefault(name, set()).add(node.attr)
    return {name for name in names if uses[name] == {"fullmatch"}}


def _calls(tree: ast.AST) -> Iterator[tuple[ast.Call, bool]]:
    """Yield calls of `re.compile`, `re.sub` and so on, each with whether it is inside a function."""
    nodes: list[tuple[ast.AST, bool]] = [(tree, False)]
    while nodes:
        node, is_inside = nodes.pop()
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="re"), attr=attr)):
                if attr not in ("escape", "error"):
                    yield node, is_inside
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                is_inside = True
        nodes += [(child, is_inside) for child in ast.iter_child_nodes(node)]


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
