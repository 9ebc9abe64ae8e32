"""The style sheets of a page, and the declarations that they give to each element. Pure.

`turbohtml` finds the elements of a selector, `tinycss2` reads the sheets.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tinycss2.parser import parse_rule_list, parse_stylesheet
from tinycss2.serializer import serialize
from turbohtml import Document, Element

from tools.mail.html.styles import parse_declarations, parse_style, pixels, without_deep_brackets

LONGEST = 100_000  # characters of all sheets: a large newsletter has 40,000
MOST_MATCHES = 100_000  # elements that all selectors find together
MOST_CHECKS = 6_000_000  # elements times the cost of each selector: a third of a second
MOST_CLASSES = 50  # of one element
DEEPEST = 3  # groups of rules inside each other
# A mail is read in a window of this size, with light colours.
WIDTH, HEIGHT = 800.0, 600.0
# Only these decide whether a text is seen.
JUDGED = frozenset(
    "display visibility mso-hide content-visibility opacity font-size font color background background-color"
    " background-image width max-width height max-height overflow overflow-x overflow-y clip clip-path text-indent top"
    " right bottom left letter-spacing transform filter zoom -webkit-text-fill-color white-space list-style-type"
    " list-style text-decoration position".split()
)  # fmt: skip
STARTS = ("margin-", "padding-")
Styles = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Rule:
    selector: str
    specificity: tuple[int, int, int]
    names: frozenset[str]  # classes and ids that a page must have for it
    cost: int  # of a check, compared with that of a class
    plain: Styles
    important: Styles


class Cascade:
    """The declarations of a page's style sheets, by element."""

    def __init__(self, page: Document) -> None:
        css = "\n".join(map(_css_of, page.find_all("style")))[:LONGEST]
        self._plain: dict[Element, list[tuple[tuple[int, int, int], Styles]]] = {}
        self._important: dict[Element, list[tuple[tuple[int, int, int], Styles]]] = {}
        if not css.strip():
            return
        elements, names = 0, set[str]()
        for each in page.iter_elements():
            elements += 1
            names.update(_names_of(each))
        found = _rules(parse_stylesheet(without_deep_brackets(css), True, True), {})
        checks = matches = 0
        for rule in found:
            if not rule.names <= names:
                continue
            checks += elements * rule.cost
            if checks > MOST_CHECKS or matches > MOST_MATCHES:
                return
            for element in _find(page, rule.selector):
                matches += 1
                if rule.plain:
                    self._plain.setdefault(element, []).append((rule.specificity, rule.plain))
                if rule.important:
                    self._important.setdefault(element, []).append(
                        (rule.specificity, rule.important)
                    )

    def has(self, element: Element) -> bool:
        """Return True if a rule is about the element."""
        return element in self._plain or element in self._important

    def style(self, element: Element, own: str) -> Styles:
        """Return the declarations of an element; `own` is its attribute `style`."""
        plain, important = self._plain.get(element), self._important.get(element)
        if plain is None and important is None:
            return parse_style(own)
        of_element, its_important = parse_declarations(own)
        found: dict[str, str] = {}
        for ordered, after in ((plain, of_element), (important, its_important)):
            for _, declarations in sorted(ordered or (), key=lambda pair: pair[0]):
                found |= declarations
            found |= after
        return found


def _css_of(sheet: Element) -> str:
    """Return the rules of a `<style>`, if the medium that it names is ours."""
    return sheet.text if _applies("media", (sheet.attr("media") or "").strip().lower()) else ""


def _names_of(element: Element) -> Iterator[str]:
    for name in ("class", "id"):
        for word in (element.attr(name) or "").split()[:MOST_CLASSES]:
            yield word.lower()


def _names_in(tokens: Iterable[Any]) -> Iterator[str]:
    before = ""
    for token in tokens:
        if token.type == "hash" or (token.type == "ident" and before == "."):
            yield token.value.lower()
        before = token.value if token.type == "literal" else ""


def _cost(tokens: list[Any]) -> int:
    kinds = [token.type for token in tokens]
    parts = sum(kind in ("whitespace", "function", "literal") for kind in kinds)
    return 1 + 5 * parts + 20 * kinds.count("function")


def _find(page: Document, selector: str) -> list[Element]:
    try:
        return page.select(selector)
    except ValueError:  # an unknown selector, as in a browser, matches nothing
        return []


def _rules(nodes: Iterable[Any], variables: dict[str, str], depth: int = 0) -> Iterator[_Rule]:
    for node in nodes:
        if node.type == "at-rule" and node.content is not None and depth < DEEPEST:
            if _applies(node.lower_at_keyword, serialize(node.prelude).strip().lower()):
                inner = parse_rule_list(node.content, True, True)
                yield from _rules(inner, variables, depth + 1)
        elif node.type == "qualified-rule":
            given = parse_declarations(serialize(node.content))
            for declarations in given:
                variables |= {n: v for n, v in declarations.items() if n.startswith("--")}
            plain, important = (
                {
                    name: _resolve(value, variables)
                    for name, value in declarations.items()
                    if name in JUDGED or name.startswith(STARTS)
                }
                for declarations in given
            )
            if not plain and not important:
                continue
            for prelude in _split(node.prelude):
                selector = serialize(prelude).strip()
                if selector:
                    names = frozenset(_names_in(prelude))
                    weight = _specificity(prelude)
                    yield _Rule(selector, weight, names, _cost(prelude), plain, important)


def _resolve(value: str, variables: Styles) -> str:
    """Return the value of a variable that was set before, on any element."""
    if not value.startswith("var("):
        return value
    name, _, otherwise = value[4:].removesuffix(")").partition(",")
    return variables.get(name.strip(), otherwise.strip())


def _split(tokens: Iterable[Any]) -> Iterator[list[Any]]:
    selector: list[Any] = []
    for token in tokens:
        if token.type == "literal" and token.value == ",":
            yield selector
            selector = []
        else:
            selector.append(token)
    yield selector


def _specificity(tokens: Iterable[Any]) -> tuple[int, int, int]:
    ids = classes = names = 0
    before = ""
    for token in tokens:
        if token.type == "hash":
            ids += 1
        elif token.type == "[] block" or (token.type == "ident" and before in (".", ":")):
            classes += 1
        elif token.type == "function" and before == ":":
            inner = max((_specificity(each) for each in _split(token.arguments)), default=(0, 0, 0))
            if token.lower_name in ("not", "is", "has", "matches"):
                ids, classes, names = ids + inner[0], classes + inner[1], names + inner[2]
            elif token.lower_name != "where":
                classes += 1
        elif token.type == "ident":
            names += 1
        before = token.value if token.type == "literal" else ""
    return ids, classes, names


def _applies(keyword: str, condition: str) -> bool:
    """Return True if the rules of a group hold for a mail in a window on a computer."""
    if keyword == "media":
        return not condition or any(_is_our_medium(query) for query in condition.split(","))
    return keyword in ("supports", "layer", "scope") and "not" not in condition.split()


def _is_our_medium(query: str) -> bool:
    words = query.replace("(", " (").split()
    is_negated = "not" in words[:1]
    kind = next(
        (word for word in words if word.isalpha() and word not in ("only", "not", "and")), "all"
    )
    holds = kind in ("all", "screen") and all(
        _has_feature(part.partition(")")[0]) for part in query.split("(")[1:]
    )
    return holds != is_negated


def _has_feature(feature: str) -> bool:
    name, _, value = (part.strip() for part in feature.partition(":"))
    length = pixels(value, 16.0)
    match name:
        case "max-width" | "max-device-width":
            return length is not None and length >= WIDTH
        case "min-width" | "min-device-width":
            return length is not None and length <= WIDTH
        case "max-height" | "max-device-height":
            return length is not None and length >= HEIGHT
        case "min-height" | "min-device-height":
            return length is not None and length <= HEIGHT
        case "prefers-color-scheme":
            return value == "light"
        case "orientation":
            return value == "landscape"
    return False
