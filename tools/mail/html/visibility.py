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
from tools.mail.html.nesting import TooLarge
from tools.mail.html.parser import HtmlParser
from tools.mail.html.properties import (
    CELLS,
)
from tools.mail.html.repair import find_lost, show_all
from tools.mail.html.styles import SIDES, Colour, number, pixels
from tools.mail.html.tags import VOID
from tools.mail.text.characters import without_invisible

TEXT_IN_PICTURE = frozenset({"text", "foreignobject"})
# Without attributes and rules they look like what is around them.
PLAIN = frozenset(
    "a b br center div em i li ol p pre span strong table tbody td th thead tr u ul".split()
)
NARROWING = frozenset("height max-height width max-width clip clip-path zoom".split())
MOVING = frozenset(
    [f"{space}{side}" for space in ("", "margin-", "padding-") for side in SIDES]
) | {"text-indent", "letter-spacing", "transform", "filter"}
MOST_ELEMENTS = 40_000  # read in a second; a large newsletter has 5,000
MOST_REPAIRS = 3
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
    line for each element, and `characters` is the length of all of it.
    """

    html: str
    unseen: tuple[str, ...] = ()
    characters: int = 0


def remove_hidden(html: str) -> Seen:
    """Return the body of `html` without the elements and texts that its reader would not see.

    It is for judging and reading only: it must not be shown or sent.
    """
    reader = _Visible()
    seen = reader.read(html)
    lost = find_lost(html)
    for _ in range(MOST_REPAIRS):
        if lost is None or reader.shows_text:
            break
        # The page would be blank: its words are meant to be read.
        reader, html = _Visible(), lost.repaired
        seen, lost = reader.read(html), find_lost(html)
    if not reader.shows_text and not reader.unseen:
        whole = show_all(html)
        seen = seen if whole == html else _Visible().read(whole)
    if lost is not None:
        reader.note(lost.words)
    return Seen(html=seen, unseen=tuple(reader.unseen), characters=reader.characters)


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

    def __init__(self) -> None:
        self.unseen: list[str] = []
        self.characters = 0
        self.shows_text = False

    def read(self, html: str) -> str:
        """Return the body of the page without its hidden parts."""
        page = parse(html)
        if sum(1 for _ in page.iter_elements()) > MOST_ELEMENTS:
            raise TooLarge  # badly nested elements are repeated in each paragraph
        body = page.select_one("body")
        if body is None:  # a page of frames
            return ""
        for node in self._find_hidden(body, Cascade(page)):
            node.extract()
        if not body.attrs:
            return body.inner_html
        body.tag = "div"  # the colours of a page are those of a block around its content
        return body.html

    def _find_hidden(self, body: Element, cascade: Cascade) -> list[Node]:
        # The colour behind a page may be that of its outermost element.
        around = Box()
        if isinstance(outer := body.parent, Element):
            given = attributes_of(outer)
            style = cascade.style(outer, given.get("style", ""))
            around = _box(outer.tag, given, style, around)
        todo: list[tuple[Node, Box]] = [(body, around)]
        found: list[Node] = []
        while todo:
            node, parent = todo.pop()
            if isinstance(node, Text):
                if self._is_hidden_text(node.data, parent):
                    found.append(node)
                continue
            if not isinstance(node, Element) or node.tag in NEVER_SHOWN:
                found.append(node)
                continue
            tag = node.tag.lower()
            if tag in PLAIN and not node.attrs and not cascade.has(node):
                todo += [(child, parent) for child in reversed(node.children)]
                continue
            attributes = attributes_of(node)
            style = cascade.style(node, attributes.get("style", ""))
            if _vanishes(tag, attributes, style, parent.look.size):
                self.note(" ".join(node.strings))
                found.append(node)
                continue
            box = _box(tag, attributes, style, parent)
            todo += [(child, box) for child in reversed(node.children)]
        return found

    def _is_hidden_text(self, text: str, box: Box) -> bool:
        if not text.strip():
            return False
        small = box.look.size < TINY
        if small or box.unseen or box.opacity < 0.15 or not box.look.is_seen():
            self.note(text)
            return True
        self.shows_text = self.shows_text or not box.drawn
        return box.drawn

    def note(self, text: str) -> None:
        """Keep the beginning of a hidden text."""
        text = " ".join(without_invisible(text).split())
        if not any(map(str.isalnum, text)):  # marks without words hide nothing
            return
        room = MOST_UNSEEN - self.characters
        self.characters += len(text)
        if room > 0:
            self.unseen.append(text[:room])


def _box(tag: str, attributes: Attributes, style: Mapping[str, str], parent: Box) -> Box:
    """Return the look of an element of foreign HTML, legible or not."""
    ground = ground_of(tag, attributes, style)
    ink = ink_of(tag, attributes, style)
    look = parent.look if ink is ground is None else paint(parent.look, ink=ink, ground=ground)
    pictured = look.pictured
    if "background-image" in style or "background" in style or "background" in attributes:
        pictured = True
    elif ground is not None and ground[1] > 0.5:
        pictured = False
    size, _ = size_of(tag, attributes, style, parent.look.size)
    if pictured != look.pictured or size != look.size:
        look = replace(look, pictured=pictured, size=size)
    unseen = {"hidden": True, "collapse": True, "visible": False}.get(
        style.get("visibility", ""), parent.unseen
    )
    return Box(
        tag=tag,
        look=look,
        unseen=unseen,
        opacity=parent.opacity * opacity_of(style) if "opacity" in style else parent.opacity,
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
    return (not NARROWING.isdisjoint(style) and _has_no_room(tag, style, size)) or (
        not MOVING.isdisjoint(style) and _is_moved_away(style, size)
    )


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
