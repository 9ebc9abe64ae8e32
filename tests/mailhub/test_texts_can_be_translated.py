"""A text for people is collected for translation only if its source is one literal."""

import ast
from collections.abc import Iterator

from tests.support.sources import ROOT, parsed

# The positions and names of the arguments that people read.
ERRORS = (
    "NotAuthorized",
    "NotPermitted",
    "OutcomeUnknown",
    "Problem",
    "Refused",
    "Unavailable",
    "Unsupported",
)
TEXTS: dict[str, tuple[tuple[int, ...], tuple[str, ...]]] = {
    **dict.fromkeys(ERRORS, ((1,), ("detail",))),
    "CannotConnect": ((0,), ("sentence",)),
    "not_found": ((0,), ("detail",)),
    "PreviewWarning": ((), ("text", "title")),
    "FieldError": ((), ("message",)),
    "Outcome": ((), ("detail",)),
}
SOURCES = {"translatable": (0,), "ntranslatable": (0, 1)}


def test_texts_are_not_glued_together() -> None:
    assert [
        f"{path.relative_to(ROOT)}:{text.lineno}"
        for path, tree in parsed("|".join(TEXTS))
        for text in texts(tree)
        if is_glued(text)
    ] == []


def test_sources_are_literals() -> None:
    assert [
        f"{path.relative_to(ROOT)}:{source.lineno}"
        for path, tree in parsed("|".join(SOURCES))
        if path.name != "texts.py"
        for source in sources(tree)
        if not is_literal(source)
    ] == []


def test_glued_text_is_noticed() -> None:
    glued = (
        'Problem("code", f"No {name}.")',
        'Problem("code", "No %s." % name)',
        'PreviewWarning(code="code", text="No {}.".format(name), title="a" + name)',
        "not_found(f'{what} is missing.')",
    )
    for call in glued:
        assert any(is_glued(text) for text in texts(ast.parse(call))), call
    for call in ("translatable(sentence)", "translatable(f'No {name}.')"):
        assert not all(is_literal(source) for source in sources(ast.parse(call)))


def texts(tree: ast.Module) -> Iterator[ast.expr]:
    for name, call in calls(tree):
        positions, names = TEXTS.get(name, ((), ()))
        yield from (call.args[each] for each in positions if each < len(call.args))
        yield from (each.value for each in call.keywords if each.arg in names)


def sources(tree: ast.Module) -> Iterator[ast.expr]:
    for name, call in calls(tree):
        yield from (call.args[each] for each in SOURCES.get(name, ()))


def calls(tree: ast.Module) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield getattr(node.func, "id", getattr(node.func, "attr", "")), node


def is_glued(text: ast.expr) -> bool:
    is_formatted = (
        isinstance(text, ast.Call)
        and isinstance(text.func, ast.Attribute)
        and text.func.attr == "format"
    )
    return isinstance(text, ast.JoinedStr | ast.BinOp) or is_formatted


def is_literal(source: ast.expr) -> bool:
    return isinstance(source, ast.Constant) and isinstance(source.value, str)
