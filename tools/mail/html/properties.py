"""The styles and attributes of a mail that may leave: known names with values that hide nothing.
Pure.

Everything else is dropped. A kept value is written again from its parsed form, so that all programs
read it in the same way.
"""

from collections.abc import Callable, Mapping

from accounts.infra.foreign_text import parse_number
from tools.mail.html.looks import legacy_colour
from tools.mail.html.styles import SIDES, as_hex, colour, number, percent, pixels

INLINE = frozenset(
    "a abbr acronym b big cite code data del dfn em font i ins kbd mark q s samp small span strike strong sub sup time"
    " tt u var".split()
)
BLOCKS_OF_TEXT = frozenset({"a", "span", "img", "div", "p", "strong", "b", "em", "i", "font"})
CELLS = frozenset({"table", "td", "th", "tr", "img"})
MOST_SPACE = 120.0  # pixels of one margin or padding
TIGHTEST, WIDEST = 1.15, 6.0  # closer lines cover each other
SPARE = 3.0  # pixels above and below a word inside a line, before it covers the line above
WORDS: Mapping[str, frozenset[str]] = {
    "font-style": frozenset({"normal", "italic", "oblique"}),
    "font-weight": frozenset({"normal", "bold", "bolder", "lighter", *(str(n) for n in range(100, 1000, 100))}),
    "text-align": frozenset({"left", "right", "center", "justify", "start", "end"}),
    "text-transform": frozenset({"none", "uppercase", "lowercase", "capitalize"}),
    "text-decoration": frozenset({"none", "underline", "line-through", "overline"}),
    "vertical-align": frozenset({"baseline", "top", "middle", "bottom", "text-top", "text-bottom", "sub", "super"}),
    "white-space": frozenset({"normal", "pre-wrap", "pre-line"}),
    "word-break": frozenset({"normal", "break-all", "break-word"}),
    "overflow-wrap": frozenset({"normal", "anywhere", "break-word"}),
    "word-wrap": frozenset({"normal", "break-word"}),
    "direction": frozenset({"ltr", "rtl"}),
    "border-collapse": frozenset({"collapse", "separate"}),
    "list-style-type": frozenset(
        "none disc circle square decimal lower-alpha upper-alpha lower-roman upper-roman".split()
    ),
}  # fmt: skip
BORDER_STYLES = frozenset({"none", "solid", "dashed", "dotted", "double"})
THICKEST = 10.0
# The usual fonts of text. Fonts outside the list may show signs, bars or nothing instead of letters.
FONTS = frozenset(
    " ".join(name.split())
    for name in """
    inherit, initial, serif, sans-serif, monospace, cursive, system-ui, ui-serif, ui-sans-serif, ui-monospace,
    -apple-system, blinkmacsystemfont, sf pro, sf pro text, sf pro display, sf mono, american typewriter, aptos,
    aptos display, aptos mono, aptos narrow, aptos serif, arial, arial black, arial narrow, arial unicode ms, avenir,
    avenir next, baskerville, book antiqua, bookman old style, calibri, calibri light, cambria, candara, cantarell,
    century gothic, century schoolbook, comic sans ms, consolas, constantia, corbel, courier, courier new, dejavu sans,
    dejavu sans mono, dejavu serif, didot, droid sans, droid serif, fira sans, franklin gothic medium, futura, garamond,
    geneva, georgia, gill sans, gill sans mt, helvetica, helvetica neue, ibm plex sans, impact, inter, lato,
    liberation mono, liberation sans, liberation serif, lucida console, lucida grande, lucida sans, lucida sans unicode,
    menlo, merriweather, monaco, montserrat, noto sans, noto serif, nunito, nunito sans, open sans,
    optima, oxygen, palatino, palatino linotype, playfair display, poppins, proxima nova, pt sans, pt serif, raleway,
    roboto, roboto mono, roboto slab, rockwell, segoe print, segoe script, segoe ui, segoe ui light, segoe ui semibold,
    source sans pro, source serif pro, tahoma, times, times new roman, trebuchet ms, ubuntu, verdana, work sans,
    angsana new, cordia new, leelawadee ui, nirmala ui, sakkal majalla, simplified arabic, traditional arabic,
    dengxian, fangsong, heiti sc, heiti tc, kaiti, microsoft jhenghei, microsoft yahei, microsoft yahei ui, mingliu,
    nsimsun, pingfang sc, pingfang tc, pmingliu, simhei, simsun, songti sc, stheiti, noto sans sc, noto sans tc,
    noto sans cjk sc, noto sans cjk tc, 宋体, 黑体, 等线, 仿宋, 楷体, 微软雅黑, 微軟正黑體, 新細明體,
    hiragino kaku gothic pron, hiragino sans, hiragino sans gb, meiryo, ms gothic, ms mincho, ms pgothic, ms pmincho,
    noto sans cjk jp, noto sans jp, yu gothic, yu mincho, メイリオ, 游ゴシック, apple sd gothic neo, batang, dotum,
    gulim, malgun gothic, noto sans kr, 굴림, 돋움, 맑은 고딕, 바탕
    """.split(",")
)  # fmt: skip
HARMLESS = ("mso-", "-ms-", "-webkit-", "-moz-")


def keep_properties(
    tag: str, style: Mapping[str, str], *, size: float, rtl: bool
) -> dict[str, str]:
    """Return the styles that may stay, except colours and font size, which depend on the
    surroundings.
    """
    block = tag not in INLINE or style.get("display") in ("block", "inline-block")
    found: dict[str, str] = {}
    for name, value in style.items():
        kept = _keep_value(tag, name, value, size=size, block=block, rtl=rtl)
        if kept is not None:
            found[name] = kept
    return found


def _keep_value(
    tag: str, name: str, value: str, *, size: float, block: bool, rtl: bool
) -> str | None:
    if name in WORDS:
        return value if value in WORDS[name] else None
    if name.startswith(("margin-", "padding-")) and name.partition("-")[2] in SIDES:
        vertical = name.endswith(("-top", "-bottom"))
        if value == "auto" and name.startswith("margin"):
            return value
        return _length(value, size, most=MOST_SPACE if block or not vertical else SPARE)
    if name in ("width", "max-width", "min-width"):
        return None if rtl else _width(tag, name, value, size)
    if name == "height":
        return _length(value, size, most=600.0) if tag in CELLS else None
    if name.startswith("border"):
        return _border(name, value, size, block=block)
    return RULES[name](value, size, tag) if name in RULES else None


def _line_height(value: str, size: float, tag: str) -> str | None:
    """Return a factor, which each font inside multiplies with its own size.

    A length would let larger letters overlap.
    """
    if value == "normal":
        return value
    factor = number(value)
    if factor is None and (part := percent(value)) is not None:
        factor = part / 100
    if factor is None and (length := pixels(value, size)) is not None:
        factor = length / size
    if factor is None or not 0.8 <= factor <= WIDEST:
        return None
    return f"{round(max(factor, TIGHTEST), 2):g}"


def _family(value: str, size: float, tag: str) -> str | None:
    names = [" ".join(name.strip("'\" ").split()) for name in value.split(",")][:20]
    kept = [name for name in names if name in FONTS]
    return ", ".join(f"'{name}'" if " " in name else name for name in kept) or None


def _display(value: str, size: float, tag: str) -> str | None:
    return value if value in ("inline-block", "block") and tag in BLOCKS_OF_TEXT else None


RULES: Mapping[str, Callable[[str, float, str], str | None]] = {
    "line-height": _line_height,
    "font-family": _family,
    "display": _display,
    "letter-spacing": lambda value, size, tag: (
        "normal" if value == "normal" else _length(value, size, most=size * 0.4)
    ),
    "word-spacing": lambda value, size, tag: (
        "normal" if value == "normal" else _length(value, size, most=size)
    ),
    "text-indent": lambda value, size, tag: _length(value, size, most=60.0),
}


def _length(value: str, size: float, *, most: float, least: float = 0.0) -> str | None:
    found = pixels(value, size)
    return f"{round(found, 1):g}px" if found is not None and least <= found <= most else None


def _width(tag: str, name: str, value: str, size: float) -> str | None:
    if name != "width" and value in ("none", "auto"):
        return value
    part = percent(value)
    if part is not None:
        return f"{round(part, 1):g}%" if (10 if tag not in CELLS else 1) <= part <= 100 else None
    return _length(
        value,
        size,
        most=1000.0 if name != "min-width" else 320.0,
        least=0.0 if tag in CELLS else 40.0,
    )


def _border(name: str, value: str, size: float, *, block: bool) -> str | None:
    most = THICKEST if block else SPARE
    if name == "border-radius" or name.endswith("-radius"):
        parts = [_length(word, size, most=100.0) for word in value.split()[:4]]
        return " ".join(part for part in parts if part) if all(parts) else None
    if name == "border-spacing":
        parts = [_length(word, size, most=40.0) for word in value.split()[:2]]
        return " ".join(part for part in parts if part) if all(parts) else None
    if name.removeprefix("border-").rpartition("-")[2] not in (
        "border",
        "width",
        "style",
        "color",
        *SIDES,
    ):
        return None
    words = []
    for word in value.split():
        length = {"thin": "1px", "medium": "3px", "thick": "5px"}.get(word) or _length(
            word, size, most=most
        )
        shade = colour(word)
        if length is None and word not in BORDER_STYLES and shade is None:
            return None
        words.append(length or (word if shade is None else as_hex(shade[0])))
    return " ".join(words) if 1 <= len(words) <= 4 else None


def _number(least: int, most: int) -> Callable[[str], str | None]:
    def check(value: str) -> str | None:
        number = parse_number(value.strip().removesuffix("px").strip(), digits=6)
        return str(number) if number is not None and least <= number <= most else None

    return check


def _one_of(words: str) -> Callable[[str], str | None]:
    known = frozenset(words.split())
    return lambda value: value.strip().lower() if value.strip().lower() in known else None


def _extent(value: str) -> str | None:
    value = value.strip()
    if value.endswith("%"):
        part = percent(value)
        return value if part is not None and 1 <= part <= 100 else None
    return _number(0, 1000)(value)


def _as_colour(value: str) -> str | None:
    found = legacy_colour(value)
    return as_hex(found[0]) if found is not None else None


def _as_it_is(value: str) -> str | None:
    return value


def _face(value: str) -> str | None:
    return _family(value.lower(), 0.0, "font")


EVERYWHERE: Mapping[str, Callable[[str], str | None]] = {
    "dir": _one_of("ltr rtl auto"),
    "lang": _as_it_is,
    "align": _one_of("left right center justify middle top bottom"),
    "valign": _one_of("top middle bottom baseline"),
    "bgcolor": _as_colour,
}
BY_TAG: Mapping[str, Mapping[str, Callable[[str], str | None]]] = {
    "a": {"href": _as_it_is},
    "img": {"src": _as_it_is, "alt": _as_it_is, "width": _extent, "height": _extent, "border": _number(0, 10)},
    "table": {"width": _extent, "height": _number(0, 600), "cellpadding": _number(0, 40), "cellspacing": _number(0, 40),
              "border": _number(0, 10), "role": _one_of("presentation none")},
    "td": {"width": _extent, "height": _number(0, 600), "colspan": _number(1, 100), "rowspan": _number(1, 1)},
    "th": {"width": _extent, "height": _number(0, 600), "colspan": _number(1, 100), "rowspan": _number(1, 1),
           "scope": _one_of("row col rowgroup colgroup")},
    "tr": {"height": _number(0, 600)},
    "col": {"width": _extent, "span": _number(1, 100)},
    "colgroup": {"width": _extent, "span": _number(1, 100)},
    "hr": {"width": _extent, "size": _number(0, 20), "color": _as_colour},
    "ol": {"start": _number(0, 9999)},
    "font": {"color": _as_colour, "size": _as_it_is, "face": _face},
}  # fmt: skip
# They are no ancestors of the cells, but are painted behind them.
NO_GROUND = frozenset({"col", "colgroup"})


def keep_attributes(tag: str, attributes: Mapping[str, str], *, rtl: bool) -> dict[str, str]:
    """Return the attributes that may stay, except `style`."""
    found: dict[str, str] = {}
    rules = {**EVERYWHERE, **BY_TAG.get(tag, {})}
    for name, value in attributes.items():
        rule = rules.get(name)
        if (
            rule is None
            or (tag in NO_GROUND and name == "bgcolor")
            or (rtl and name == "width" and tag != "img")
        ):
            continue
        kept = rule(value)
        if kept is not None:
            found[name] = kept
    return found
