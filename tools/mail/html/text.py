"""The text of HTML as a person sees it. Pure, without recursion, linear in its length.

Hidden parts are not judged here: `tools.mail.html.visibility` removes them before.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from turbohtml import Element, Text, parse

from tools.mail.html.boxes import Boxes
from tools.mail.html.elements import NEVER_SHOWN, attributes_of
from tools.mail.html.links import address_of, is_named, shorten
from tools.mail.html.signs import INDICES, POWERS, PRIVATE, Signs, as_signs, sign_font
from tools.mail.html.styles import parse_style, pixels

# A browser shows something that is no text in their place, or nothing.
SKIPPED: Final = NEVER_SHOWN | frozenset(
    "head datalist param source track audio meta link base desc defs annotation annotation-xml metadata area".split()
)
# Blocks with an empty line before and after.
APART: Final = frozenset(
    "p h1 h2 h3 h4 h5 h6 pre xmp listing plaintext blockquote figure fieldset dl".split()
)
BLOCKS: Final = APART | frozenset(
    "address article aside body caption center details dialog div dt figcaption footer form frameset header hgroup html"
    " legend main nav optgroup search section summary textarea".split()
)  # fmt: skip
BOXES: Final = frozenset("table tr td th ul ol dir menu li dd".split())
EXACT: Final = frozenset({"pre", "xmp", "listing", "plaintext", "textarea"})
STRUCK: Final = frozenset({"s", "strike", "del"})
RULE = "---"
LONGEST_NAME = 300  # characters of a picture's name
TINY = 3.0  # pixels: a smaller picture only counts readers
BUTTONS: Final = frozenset({"submit", "button", "reset"})
UNSEEN_FIELDS: Final = frozenset({"hidden", "image", "file", "password", "color", "range"})
Leave = Callable[[], None]
Given = Mapping[str, str]


def render(html: str) -> str:
    """Return the text of HTML; the address of each link follows its text."""
    renderer = _Renderer()
    renderer.read(html)
    lines = renderer.boxes.lines.finish()
    if not lines and renderer.pictures:
        return "[image]"
    return "\n".join(lines)


class _Renderer:
    def __init__(self) -> None:
        self.boxes = Boxes()
        self.pictures = 0
        self._exact = False
        self._signs: list[Signs] = [PRIVATE]
        self._last_address = ""

    def read(self, html: str) -> None:
        todo: list[object] = list(reversed(parse(html).children))
        while todo:
            item = todo.pop()
            if isinstance(item, Text):
                self._write(item.data)
            elif isinstance(item, Element):
                tag = item.tag.lower()
                if tag not in SKIPPED:
                    todo += self._enter(item, tag)
                    todo += self._children(item, tag)
            elif callable(item):
                item()

    def _children(self, node: Element, tag: str) -> list[object]:
        children: list[object] = list(reversed(node.children))
        if tag != "select":
            return children
        options = node.find_all("option")
        return (
            [next((each for each in options if "selected" in each.attrs), *options[:1])]
            if options
            else []
        )

    def _write(self, text: str) -> None:
        text = as_signs(text, self._signs[-1])
        if self._exact:
            self.boxes.lines.write_exactly(text)
        else:
            self.boxes.lines.write(text)

    def _enter(self, node: Element, tag: str) -> list[Leave]:
        """Begin an element, and return what ends it; the last of them comes first."""
        attributes = attributes_of(node)
        style = parse_style(attributes["style"]) if "style" in attributes else {}
        leaves: list[Leave] = []
        if _is_block(tag, style):
            leaves.append(self._begin_block(apart=tag in APART and _has_margin(attributes, style)))
        exact = _is_exact(tag, style, self._exact)
        if exact != self._exact:
            leaves.append(partial(setattr, self, "_exact", self._exact))
            self._exact = exact
        signs = _signs_of(tag, attributes, style)
        if signs is not None:
            self._signs.append(signs)
            leaves.append(self._end_signs)
        if tag in STRUCK or "line-through" in style.get("text-decoration", ""):
            lines = self.boxes.lines
            leaves.append(partial(lines.surround, lines.mark(), "~~"))
        if tag in BOXES:
            leaves.append(self.boxes.begin(tag, attributes, style))
        elif tag == "a":
            leaves += self._begin_link(attributes.get("href", ""))
        elif tag in SURROUNDED:
            self._write(SURROUNDED[tag][0])
            leaves.append(partial(self._write, SURROUNDED[tag][1]))
        elif tag in WRITTEN:
            getattr(self, WRITTEN[tag])(attributes)
        return leaves

    def _begin_block(self, *, apart: bool) -> Leave:
        begin_or_end = self._put_gap if apart else self._end_line
        begin_or_end()
        return begin_or_end

    def _end_line(self) -> None:
        self.boxes.lines.end_line()

    def _put_gap(self) -> None:
        self.boxes.lines.add_gap()

    def _end_signs(self) -> None:
        self._signs.pop()

    def _begin_link(self, target: str) -> list[Leave]:
        address = address_of(target)
        if not address:
            return []
        lines = self.boxes.lines
        return [partial(self._end_link, address, lines.mark())]

    def _end_link(self, address: str, mark: tuple[int, int]) -> None:
        lines = self.boxes.lines
        text = lines.since(mark)
        # A picture, a headline and a button often lead to the same page, one after another.
        if address != self._last_address and not is_named(address, text):
            lines.append(f" <{shorten(address)}>")
        self._last_address = address

    def _write_break(self, attributes: Given) -> None:
        self.boxes.lines.break_line()

    def _write_rule(self, attributes: Given) -> None:
        self.boxes.lines.add_block([RULE])

    def _write_picture(self, attributes: Given) -> None:
        sizes = [
            attributes.get(side, "").strip().removesuffix("px") for side in ("width", "height")
        ]
        if any(
            size.replace(".", "", 1).isdigit() and float(size) < TINY
            for size in sizes
            if size.isascii()
        ):
            return
        self.pictures += 1
        name = " ".join((attributes.get("alt") or attributes.get("title") or "").split())
        if name:
            # A picture of an emoji is named with it.
            is_sign = len(name) <= 8 and not any(letter.isalnum() for letter in name)
            self._write(name if is_sign else f"[image: {name[:LONGEST_NAME]}]")

    def _write_field(self, attributes: Given) -> None:
        kind, value = attributes.get("type", "text").lower(), attributes.get("value", "")
        if kind in ("checkbox", "radio"):
            self._write("[x] " if "checked" in attributes else "[ ] ")
        elif kind in BUTTONS and value:
            self._write(f"[{value}]")
        elif kind not in UNSEEN_FIELDS:
            self._write(value or attributes.get("placeholder", ""))


SURROUNDED: Final = {"q": ("“", "”"), "rt": ("(", ")"), "option": ("", " "), "button": (" ", " ")}
WRITTEN: Final = {
    "br": "_write_break",
    "hr": "_write_rule",
    "img": "_write_picture",
    "input": "_write_field",
}


def _is_block(tag: str, style: Given) -> bool:
    display = style.get("display", "")
    if tag in BLOCKS:
        return display not in ("inline", "contents")
    return tag not in BOXES and display in (
        "block",
        "flex",
        "grid",
        "table",
        "table-row",
        "list-item",
    )


def _has_margin(attributes: Given, style: Given) -> bool:
    """Return True if empty lines are around a paragraph: Outlook writes most without them."""
    sides = [style.get(f"margin-{side}", "") for side in ("top", "bottom")]
    if any(sides):
        return any(pixels(side, 16.0) != 0 for side in sides if side)
    return not attributes.get("class", "").startswith("Mso")


def _is_exact(tag: str, style: Given, outer: bool) -> bool:
    given = style.get("white-space", "")
    if given:
        return given.startswith(("pre", "break-spaces"))
    return outer or tag in EXACT


def _signs_of(tag: str, attributes: Given, style: Given) -> Signs | None:
    if tag in ("sup", "sub"):
        return POWERS if tag == "sup" else INDICES
    return sign_font(style.get("font-family", "") or attributes.get("face", ""))
