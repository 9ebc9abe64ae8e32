"""A text for people is collected for translation only if its source is one literal."""

import ast
import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PRODUCT = ("accounts", "approvals", "mailhub", "tools")
# The positions and names of the arguments that people read.
ERRORS = (
    "NotAuthorized",
    "NotPermitted",
    "OutcomeUnknown",
    "Problem",
    "Refused",
    "SignInFailed",
    "Unavailable",
    "Unsupported",
)
TEXTS: dict[str, tuple[tuple[int, ...], tuple[str, ...]]] = {
    **dict.fromkeys(ERRORS, ((1,), ("detail",))),
    "not_found": ((0,), ("detail",)),
    "PreviewWarning": ((), ("text", "title")),
    "FieldError": ((), ("message",)),
    "Outcome": ((), ("detail",)),
}
SOURCES = {"translatable": (0,), "ntranslatable": (0, 1)}


def test_texts_are_not_glued_together() -> None:
    assert [
        f"{path.relative_to(ROOT)}:{text.lineno}"
        for path in product()
        for text in texts(path.read_text())
        if is_glued(text)
    ] == []


def test_sources_are_literals() -> None:
    assert [
        f"{path.relative_to(ROOT)}:{source.lineno}"
        for path in product()
        if path.name != "texts.py"
        for source in sources(path.read_text())
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
        assert any(is_glued(text) for text in texts(call)), call
    assert not all(is_literal(source) for source in sources("translatable(sentence)"))
    assert not all(is_literal(source) for source in sources("translatable(f'No {name}.')"))


def product() -> Iterator[Path]:
    found = subprocess.run(
        ["git", "ls-files", *(f"{folder}/*.py" for folder in PRODUCT)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return (ROOT / name for name in found.stdout.split())


def texts(code: str) -> Iterator[ast.expr]:
    for name, call in calls(code):
        positions, names = TEXTS.get(name, ((), ()))
        yield from (call.args[each] for each in positions if each < len(call.args))
        yield from (each.value for each in call.keywords if each.arg in names)


def sources(code: str) -> Iterator[ast.expr]:
    for name, call in calls(code):
        yield from (call.args[each] for each in SOURCES.get(name, ()))


def calls(code: str) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(ast.parse(code)):
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
