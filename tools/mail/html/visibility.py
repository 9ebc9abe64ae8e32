"""The visible part of HTML: one judgement for reading a mail, showing one, and warning about one.

`remove_hidden` removes the parts of foreign HTML that its reader would not see. `make_legible` rewrites HTML that
is to leave until nothing in it is hidden; it takes HTML that a parser has put in order
(`tools.mail.html.clean`). Both read it once without recursion, and keep a few numbers for each open
element. Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from turbohtml import Element, Node, Text, parse

from tools.mail.html.cascade import Cascade
from tools.mail.html.elements import NEVER_SHOWN, attributes_of
from tools.mail.html.looks import (
    Attributes,
    Look,
    ground_of,
    ink_of,
    opacity_of,
    paint,
    size_of,
)
from tools.mail.html.parser import HtmlParser
from tools.mail.html.properties import (
    CELLS,
)
from tools.mail.html.styles import SIDES, Colour, number, pixels
from tools.mail.text.characters import without_invisible

# Elements without an end tag, including obsolete ones: the first parser writes no end tag for them.
VOID = frozenset(
    "area base basefont bgsound br col embed frame hr img input keygen link meta param source track wbr".split()
)
TEXT_IN_PICTURE = frozenset({"text", "foreignobject"})
MOST_UNSEEN = 2_000  # characters of hidden text that are kept for display
TINY = 5.0  # pixels: letters of this height look like dots
FAR = 200.0  # pixels: nobody finds content that is moved this far
BEYOND = 3_000.0
INDENTED = 240.0  # pixels of indentation in total; a phone is 360 wide
USUAL_INDENT = {"blockquote": 80.0, "figure": 80.0, "ul": 40.0, "ol": 40.0, "dd": 40.0}
PLAIN_LINK: Colour = (0, 0, 238)
LINK_SEEN = 2.5  # contrast: programs use different blues for links
BLACK: Colour = (0, 0, 0)
MARKED = ((255, 255, 0), 1.0)


@dataclass(frozen=True, kw_only=True)
class Seen:
    """The result: `html` without hidden parts; `unseen` is the beginning of the hidden text, one
    line for each element.
    """

    html: str
    unseen: tuple[str, ...] = ()


def remove_hidden(html: str) -> Seen:
    """Return the body of `html` without the elements and texts that its reader would not see.

    It is for judging and reading only: it must not be shown or sent.
    """
    page = parse(html)
    reader = _Visible(Cascade(page))
    body = page.select_one("body")
    if body is None:
        return Seen(html="")
    reader.read(body)
    seen = body.inner_html
    if body.attrs:  # the colours of a page are those of a block around its content
        body.tag = "div"
        seen = body.html
    return Seen(html=seen, unseen=tuple(reader.unseen))


Given = list[tuple[str, str | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """An open element.

    `carries`: it is a part of a line and paints its background behind its own text only.
    """

    tag: str = ""
    look: Look = field(default_factory=Look)
    indent: float = 0.0
    rtl: bool = False
    carries: bool = False
    unseen: bool = False
    opacity: float = 1.0
    drawn: bool = False  # it is a part of a picture: only some elements in it show text


class Reader(HtmlParser):
    """A parser that hands over each text as a whole, with its entities unchanged."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.out: list[str] = []
        self.open = [Box()]
        self._text: list[str] = []

    def handle_data(self, data: str) -> None:
        self._text.append(data)

    def handle_entityref(self, name: str) -> None:
        self._text.append(f"&{name};")

    def handle_charref(self, name: str) -> None:
        self._text.append(f"&#{name};")

    def handle_starttag(self, tag: str, attrs: Given) -> None:
        self.flush()
        self.begin(tag, {name: value or "" for name, value in reversed(attrs)})

    def handle_endtag(self, tag: str) -> None:
        self.flush()
        if len(self.open) > 1 and tag not in VOID:
            self.end(self.open.pop().tag)

    def close(self) -> None:
        super().close()
        self.flush()

    def flush(self) -> None:
        if self._text:
            text, self._text = "".join(self._text), []
            self.text(text)

    def begin(self, tag: str, attributes: Attributes) -> None:
        raise NotImplementedError

    def end(self, tag: str) -> None:
        raise NotImplementedError

    def text(self, text: str) -> None:
        raise NotImplementedError


class _Visible:
    """A walk through a page that takes out the parts that are not seen."""

    def __init__(self, cascade: Cascade) -> None:
        self.unseen: list[str] = []
        self._cascade = cascade
        self._room = MOST_UNSEEN

    def read(self, body: Element) -> None:
        todo: list[tuple[Node, Box]] = [(body, Box())]
        removed: list[Node] = []
        while todo:
            node, parent = todo.pop()
            if isinstance(node, Text):
                if parent.drawn:
                    removed.append(node)
                elif _is_unseen(node.data, parent):
                    self._note(node.data)
                    removed.append(node)
                continue
            if not isinstance(node, Element) or node.tag in NEVER_SHOWN:
                removed.append(node)
                continue
            tag = node.tag.lower()
            attributes = attributes_of(node)
            style = self._cascade.style(node, attributes.get("style", ""))
            if _vanishes(tag, attributes, style, parent.look.size):
                self._note(" ".join(node.strings))
                removed.append(node)
                continue
            box = _box(tag, attributes, style, parent)
            todo += [(child, box) for child in reversed(node.children)]
        for node in removed:
            node.extract()

    def _note(self, text: str) -> None:
        text = " ".join(without_invisible(text).split())
        if text and self._room > 0:
            self.unseen.append(text[: self._room])
            self._room -= len(text)


def _is_unseen(text: str, box: Box) -> bool:
    return bool(text.strip()) and (box.unseen or box.opacity < 0.15 or not box.look.is_seen())


def _box(tag: str, attributes: Attributes, style: Mapping[str, str], parent: Box) -> Box:
    """Return the look of an element of foreign HTML, legible or not."""
    ground = ground_of(tag, attributes, style)
    look = paint(parent.look, ink=ink_of(tag, attributes, style), ground=ground)
    if "background-image" in style or "background" in style or "background" in attributes:
        look = replace(look, pictured=True)
    elif ground is not None and ground[1] > 0.5:
        look = replace(look, pictured=False)
    size, _ = size_of(tag, attributes, style, parent.look.size)
    unseen = {"hidden": True, "collapse": True, "visible": False}.get(
        style.get("visibility", ""), parent.unseen
    )
    return Box(
        tag=tag,
        look=replace(look, size=size, faded=look.faded or size < TINY),
        unseen=unseen,
        opacity=parent.opacity * opacity_of(style),
        drawn=(parent.drawn or tag == "svg") and tag not in TEXT_IN_PICTURE,
    )


def _vanishes(tag: str, attributes: Attributes, style: Mapping[str, str], size: float) -> bool:
    """Return True if the element and its content are not seen."""
    if "hidden" in attributes or tag == "rp" or (tag == "dialog" and "open" not in attributes):
        return True
    if (
        style.get("display") == "none"
        or style.get("mso-hide") == "all"
        or style.get("content-visibility") == "hidden"
    ):
        return True
    return _has_no_room(tag, style, size) or _is_moved_away(style, size)


def _has_no_room(tag: str, style: Mapping[str, str], size: float) -> bool:
    # Browsers make a table cell as large as its text, even if it names a smaller width or height.
    grows = tag in CELLS and "display" not in style
    names = ("max-height", "max-width") if grows else ("height", "max-height", "width", "max-width")
    narrow = [style.get(name, "") for name in names]
    room = [length for value in narrow if (length := pixels(value, size)) is not None]
    cut_off = any(
        style.get(name, "") in ("hidden", "clip")
        for name in ("overflow", "overflow-x", "overflow-y")
    )
    if room and (min(room) <= 0 or (cut_off and min(room) <= TINY)):
        return True
    clip = style.get("clip-path", "") or style.get("clip", "")
    if clip.startswith(("rect(", "inset(", "circle(", "polygon(", "ellipse(")):
        numbers = clip.partition("(")[2].replace(",", " ").replace(")", " ").split()
        lengths = [pixels(word, size) for word in numbers]
        if clip.startswith("inset("):
            return any((part := _share(word)) is not None and part >= 45 for word in numbers)
        return all(length is not None and length <= TINY for length in lengths) or numbers[:1] in (
            ["0"],
            ["0%"],
        )
    return number(style.get("zoom", "")) == 0


def _share(word: str) -> float | None:
    return number(word.removesuffix("%")) if word.endswith("%") else None


def _is_moved_away(style: Mapping[str, str], size: float) -> bool:
    moved = [style.get("text-indent", ""), *(style.get(side, "") for side in SIDES)]
    moved += [style.get(f"margin-{side}", "") for side in SIDES] + [
        style.get(f"padding-{side}", "") for side in SIDES
    ]
    lengths = [length for value in moved if value and (length := pixels(value, size)) is not None]
    if any(length <= -FAR or length >= BEYOND for length in lengths):
        return True
    closer = pixels(style.get("letter-spacing", ""), size)
    if closer is not None and (closer <= -size / 2 or closer >= BEYOND):
        return True
    return _is_turned_away(style.get("transform", "") + style.get("filter", ""), size)


def _is_turned_away(functions: str, size: float) -> bool:
    for call in functions.split(")")[:20]:
        name, _, inside = call.strip().partition("(")
        values = inside.replace(",", " ").split()
        numbers = [number(value.removesuffix("deg").removesuffix("%")) for value in values]
        lengths = [pixels(value, size) or 0.0 for value in values]
        if name.startswith(("scale", "opacity")) and any(
            n is not None and abs(n) < 0.1 for n in numbers
        ):
            return True
        if name.startswith("translate") and any(abs(length) >= FAR for length in lengths):
            return True
        if name in ("rotatex", "rotatey") and any(
            n is not None and abs(n) % 180 == 90 for n in numbers
        ):
            return True
    return False
