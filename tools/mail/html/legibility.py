"""The rewriting of HTML that is to leave, until nothing in it is hidden. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from html import escape

from tools.mail.html.looks import (
    GROUNDS,
    LARGEST,
    LINK,
    SMALLEST,
    WHITE,
    Attributes,
    Look,
    ground_of,
    ink_of,
    paint,
    size_of,
    sticks_out,
)
from tools.mail.html.properties import (
    HARMLESS,
    INLINE,
    NO_GROUND,
    keep_attributes,
    keep_properties,
)
from tools.mail.html.styles import as_hex, contrast, parse_style
from tools.mail.html.tags import VOID
from tools.mail.html.visibility import (
    BLACK,
    INDENTED,
    LINK_SEEN,
    MARKED,
    PLAIN_LINK,
    USUAL_INDENT,
    Box,
    Reader,
)
from tools.mail.text.characters import without_invisible


@dataclass(frozen=True, kw_only=True)
class Legible:
    """The result: `html` may leave. `changed`: a style or an attribute could not be kept."""

    html: str
    changed: bool = False


def make_legible(html: str) -> Legible:
    """Return `html` with only the styles and attributes that hide nothing.

    Text that needs a background colour gets one.
    """
    writer = _Legible()
    writer.feed(html)
    writer.close()
    return Legible(html="".join(writer.out), changed=writer.changed)


class _Legible(Reader):
    def __init__(self) -> None:
        super().__init__()
        self.changed = False

    def begin(self, tag: str, attributes: Attributes) -> None:
        parent = self.open[-1]
        style = parse_style(attributes.get("style", ""))
        direction = style.get("direction") or attributes.get("dir", "").lower()
        rtl = direction == "rtl" or (parent.rtl and direction != "ltr")
        size, kept = _keep_size(tag, attributes, style, parent.look.size)
        look, colours = _keep_colours(tag, attributes, style, parent.look)
        kept |= colours | keep_properties(tag, style, size=size, rtl=rtl)
        named = keep_attributes(tag, attributes, rtl=rtl)
        if tag == "pre":
            kept["white-space"] = "pre-wrap"
        indent = parent.indent + _limit_indent(tag, named, kept, parent.indent)
        for name, property_ in (("bgcolor", "background-color"), ("color", "color")):
            if property_ in kept or name not in named or tag == "hr":
                continue
            del named[name]  # it was illegible
        lost = [name for name in style if name not in kept and not name.startswith(HARMLESS)]
        self.changed = (
            self.changed or bool(lost) or any(n not in named and n != "style" for n in attributes)
        )
        if kept:
            named["style"] = "; ".join(f"{name}: {value}" for name, value in kept.items())
        self.out.append(
            f"<{tag}{''.join(f' {name}={_quote(value)}' for name, value in sorted(named.items()))}>"
        )
        if tag not in VOID:
            inline = tag in INLINE and "display" not in kept
            carries = inline and "background-color" in kept
            self.open.append(
                Box(tag=tag, look=replace(look, size=size), indent=indent, rtl=rtl, carries=carries)
            )

    def end(self, tag: str) -> None:
        self.out.append(f"</{tag}>")

    def text(self, text: str) -> None:
        text = without_invisible(text)
        box = self.open[-1]
        if text.strip() and not box.carries and sticks_out(box.look):
            text = f'<span style="background-color: {as_hex(box.look.ground)}">{text}</span>'
        self.out.append(text)


def _quote(value: str) -> str:
    return f'"{escape(without_invisible(value))}"'


def _keep_size(
    tag: str, attributes: Attributes, style: Mapping[str, str], parent: float
) -> tuple[float, dict[str, str]]:
    """Return the size of the letters, and a style for it if the tag by itself gives another
    size.
    """
    size, own = size_of(tag, attributes, style, parent)
    if own and SMALLEST <= size <= LARGEST:
        return size, {"font-size": f"{round(size, 2):g}px"}
    if own:
        size, _ = size_of(tag, attributes, {}, parent)
    if SMALLEST <= size <= LARGEST:
        return size, {}
    size = 12.0 if size < SMALLEST else 48.0
    return size, {"font-size": f"{size:g}px"}


def _keep_colours(
    tag: str, attributes: Attributes, style: Mapping[str, str], parent: Look
) -> tuple[Look, dict[str, str]]:
    """Return the look with the element's own colours, if its text is legible with them.

    A background is kept, and the text on it gets a legible colour; an illegible colour of the text
    is dropped.
    """
    ink = ink_of(tag, attributes, style)
    ground = None if tag in NO_GROUND else ground_of(tag, attributes, style)
    link, marked = tag == "a" and "href" in attributes, tag == "mark"
    shade = ground or (MARKED if marked else None)
    if shade is not None and len(parent.grounds) >= GROUNDS:
        ground = shade = None
    own = (
        {"background-color": as_hex(paint(parent, ink=None, ground=ground).ground)}
        if ground is not None
        else {}
    )
    if ink is not None and (look := paint(parent, ink=ink, ground=shade)).is_seen():
        return look, {**own, "color": as_hex(look.ink)}
    usual = (BLACK, 1.0) if marked else (LINK, 1.0) if link else None
    look = paint(parent, ink=usual, ground=shade)
    if look.is_seen() and (
        not link or min(contrast(blue, look.ground) for blue in (LINK, PLAIN_LINK)) >= LINK_SEEN
    ):
        return look, own
    plain = paint(parent, ink=None, ground=shade)
    if not plain.is_seen():
        plain = replace(
            plain, ink=max((BLACK, WHITE), key=lambda each: contrast(each, plain.ground))
        )
    return plain, {**own, "color": as_hex(plain.ink)}


def _limit_indent(tag: str, named: dict[str, str], kept: dict[str, str], so_far: float) -> float:
    """Return by how many pixels the element is narrower than its parent; remove indents that leave
    no room.
    """
    names = [f"{sort}-{side}" for sort in ("margin", "padding") for side in ("left", "right")]
    own = sum(
        float(kept[name].removesuffix("px")) for name in names if kept.get(name, "auto") != "auto"
    )
    usual = USUAL_INDENT.get(tag, 0.0)
    padding = 2.0 * float(named.get("cellpadding", "0")) if tag == "table" else 0.0
    if so_far + own + usual + padding <= INDENTED:
        return own + usual + padding
    for name in names:
        kept.pop(name, None)
        if usual:
            kept[name] = "0px"
    named.pop("cellpadding", None)
    return 0.0
