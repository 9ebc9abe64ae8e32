"""Lazy loading for packages with a thousand names, of which the chat uses three.

The libraries of the model providers name every type of their whole API in the `__init__` of a
package: fine-tuning, audio, data sets. So does LangSmith's, which LangChain always imports. These
types were a third of the cost of the first use of the chat. If such an `__init__` contains only
`from … import …`, it becomes a table here, and a name is imported at its first use. An `__init__`
that does more runs unchanged: a new version can only cost memory.
"""

import ast
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import resolve_name
from types import ModuleType
from typing import Any

TREES = (
    "openai.types",
    "anthropic.types",
    "anthropic.resources",
    "langsmith.types",
)  # and all packages in them
PACKAGES = ("langchain_openai", "langchain_anthropic", "langgraph_sdk")  # only these

Names = dict[str, tuple[str, str]]


class OnDemand:
    """A finder of the packages named above; it must be the first of Python's finders."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in PACKAGES and not f"{name}.".startswith(tuple(f"{tree}." for tree in TREES)):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if (
            spec
            and spec.submodule_search_locations is not None
            and isinstance(spec.loader, SourceFileLoader)
        ):
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


def install() -> None:
    """Load the packages lazily from now on; modules that are already imported stay unchanged."""
    if not any(isinstance(finder, OnDemand) for finder in sys.meta_path):
        sys.meta_path.insert(0, OnDemand())


class _Loader(SourceFileLoader):
    def exec_module(self, module: ModuleType) -> None:
        tree = ast.parse(self.get_source(module.__name__) or "")
        names = _names(tree, module.__name__)
        if names is None:
            super().exec_module(module)
            return

        def asked_for(name: str) -> Any:
            if name not in names:
                raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
            source, original = names[name]
            # As `from` does: an attribute, or else a module of that name.
            found = import_module(source)
            value = (
                getattr(found, original)
                if hasattr(found, original)
                else import_module(f"{source}.{original}")
            )
            setattr(module, name, value)
            return value

        for node in tree.body:
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    setattr(module, ast.unparse(target), ast.literal_eval(node.value))
        module.__getattr__ = asked_for  # type: ignore[method-assign]


def _names(tree: ast.Module, package: str) -> Names | None:
    """Return the source of each name; None if the module does more than import names."""
    names: Names = {}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            source = (
                resolve_name("." * node.level + (node.module or ""), package)
                if node.level
                else node.module or ""
            )
            for alias in node.names:
                name = alias.asname or alias.name
                # If a module contains its own name, the order of imports decides which one is
                # meant.
                if name == "*" or name == source.rpartition(".")[2]:
                    return None
                names[name] = (source, alias.name)
        elif not _is_literal(node):
            return None
    return names


def _is_literal(node: ast.stmt) -> bool:
    """Return True for a docstring, `__all__ = [...]` or `__version__ = "1"`."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    if not isinstance(node, ast.Assign) or not all(
        isinstance(target, ast.Name) for target in node.targets
    ):
        return False
    try:
        ast.literal_eval(node.value)
    except ValueError:
        return False
    return True
