"""The visible part of HTML: one judgement for reading a mail, showing one, and warning about one.

`remove_hidden` removes the parts of foreign HTML that its reader would not see. `make_legible` rewrites HTML that
is to leave until nothing in it is hidden. Both take HTML that a parser has put in order
(`tools.mail.html.clean`), read it once without recursion, and keep a few numbers for each open
element. Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from html import unescape

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
from tools.mail.html.styles import SIDES, Colour, number, parse_style, pixels, sheet
from tools.mail.text.characters import without_invisible

# Elements without an end tag, including obsolete ones: the first parser writes no end tag for them.
VOID = frozenset(
    "area base basefont bgsound br col embed frame hr img input keygen link meta param source track wbr".split()
)
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


def remove_hidden(html: str, css: str = "") -> Seen:
    """Return `html` without the elements and texts that its reader would not see.

    `css` holds its style sheets.
    """
    reader = _Seen(sheet(css) if css else {})
    reader.feed(html)
    reader.close()
    return Seen(html="".join(reader.out), unseen=tuple(reader.unseen))


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


class _Seen(Reader):
    def __init__(self, rules: Mapping[str, Mapping[str, str]]) -> None:
        super().__init__()
        self.rules = rules
        self.unseen: list[str] = []
        self._left_out = 0  # open elements, counted from the outermost hidden one
        self._lost: list[str] = []
        self._room = MOST_UNSEEN

    def begin(self, tag: str, attributes: Attributes) -> None:
        parent = self.open[-1]
        style = self._style(tag, attributes)
        if self._left_out or _vanishes(tag, attributes, style, parent.look.size):
            if tag not in VOID:
                self._left_out += 1
                self.open.append(Box(tag=tag))
            return
        self.out.append(self.get_starttag_text() or "")
        if tag not in VOID:
            self.open.append(_box(tag, attributes, style, parent))

    def end(self, tag: str) -> None:
        if not self._left_out:
            self.out.append(f"</{tag}>")
            return
        self._left_out -= 1
        if not self._left_out:
            self._note("".join(self._lost))
            self._lost = []

    def text(self, text: str) -> None:
        box = self.open[-1]
        if self._left_out:
            self._lost.append(f"{text} ")
        elif text.strip() and (box.unseen or box.opacity < 0.15 or not box.look.is_seen()):
            self._note(text)
        else:
            self.out.append(text)

    def close(self) -> None:
        super().close()
        self._note("".join(self._lost))

    def _note(self, text: str) -> None:
        text = " ".join(without_invisible(unescape(text)).split())
        if text and self._room > 0:
            self.unseen.append(text[: self._room])
            self._room -= len(text)

    def _style(self, tag: str, attributes: Attributes) -> Mapping[str, str]:
        own = parse_style(attributes.get("style", ""))
        if not self.rules:
            return own
        names = attributes.get("class", "").lower().split()[:20]
        selectors = ["*", tag, *(f".{n}" for n in names), *(f"{tag}.{n}" for n in names)]
        selectors.append(f"#{attributes.get('id', '').lower()}")
        found: dict[str, str] = {}
        for selector in selectors:
            found |= self.rules.get(selector, {})
        return {**found, **own}


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
