"""CSS values of mail, parsed by tinycss2 and reduced to numbers, colours and words.

Pure, linear in the length.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType

from tinycss2.color4 import parse_color
from tinycss2.parser import parse_blocks_contents, parse_one_component_value
from tinycss2.serializer import serialize

Colour = tuple[int, int, int]
LONGEST = 10_000  # characters of one style: nobody writes more
DEEPEST = 20  # nested brackets: the parser is recursive
POINT = 4 / 3
LENGTHS = {
    "px": 1.0,
    "pt": POINT,
    "pc": 16.0,
    "in": 96.0,
    "cm": 96 / 2.54,
    "mm": 96 / 25.4,
    "q": 96 / 101.6,
}
FONT_UNITS = {"em": 1.0, "ex": 0.5, "ch": 0.5, "rem": 0.0, "lh": 1.2, "rlh": 1.2}
VIEWPORT_UNITS = {"vw": 8.0, "vh": 6.0, "vmin": 6.0, "vmax": 8.0}
LIGHTNESS = {"lab": 100, "lch": 100, "oklab": 1, "oklch": 1}
ROOT_SIZE = 16.0
SIDES = ("top", "right", "bottom", "left")


@lru_cache(maxsize=4096)
def parse_style(style: str) -> Mapping[str, str]:
    """Return the declarations of a style attribute: names and values in lower case, the winner of
    each name.

    Margins and paddings are split into their four sides; `background` becomes a colour, an image,
    or both.
    """
    plain, important = parse_declarations(style)
    return MappingProxyType({**plain, **important})


@lru_cache(maxsize=4096)
def parse_declarations(style: str) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Return the usual and the important declarations, each as `parse_style` does."""
    found = parse_blocks_contents(
        without_deep_brackets(style[:LONGEST]), skip_comments=True, skip_whitespace=True
    )
    plain: dict[str, str] = {}
    important: dict[str, str] = {}
    for each in found:
        if each.type != "declaration":
            continue
        target = important if each.important else plain
        for name, value in _longhands(each.lower_name, serialize(each.value).strip().lower()):
            target.pop(name, None)
            target[name] = value
    return MappingProxyType(plain), MappingProxyType(important)


def without_deep_brackets(text: str) -> str:
    """Return the text without the parts inside too many brackets."""
    if sum(text.count(bracket) for bracket in "([{") <= DEEPEST:
        return text
    kept, depth = [], 0
    for character in text:
        depth += (character in "([{") - (character in ")]}" and depth > 0)
        if depth < DEEPEST:
            kept.append(character)
    return "".join(kept)


def _longhands(name: str, value: str) -> Iterable[tuple[str, str]]:
    if name in ("margin", "padding"):
        parts = value.split()
        if not 1 <= len(parts) <= 4:
            return ()
        places = {1: (0, 0, 0, 0), 2: (0, 1, 0, 1), 3: (0, 1, 2, 1), 4: (0, 1, 2, 3)}[len(parts)]
        return [(f"{name}-{side}", parts[place]) for side, place in zip(SIDES, places, strict=True)]
    if name == "background":
        found = [("background-image", value)] if "url(" in value or "gradient(" in value else []
        colours = [word for word in _words(value) if colour(word) is not None]
        return (
            [*found, ("background-color", colours[0])]
            if colours
            else [*found, ("background", value)]
        )
    return [(name, value)]


def _words(value: str) -> list[str]:
    """Split at blanks outside brackets."""
    words = [""]
    depth = 0
    for character in value:
        depth += (character == "(") - (character == ")")
        if character.isspace() and depth == 0:
            words.append("")
        else:
            words[-1] += character
    return [word for word in words if word]


@lru_cache(maxsize=4096)
def colour(value: str) -> tuple[Colour, float] | None:
    """Return a colour and its opacity from 0 to 1, or None for an unknown colour."""
    if not value or len(value) > 100:
        return None
    try:
        found = parse_color(value)
        if found is None or isinstance(found, str):
            return None
        if found.space in LIGHTNESS:  # the hue is not computed: lightness decides legibility
            red = green = blue = (found.coordinates[0] or 0.0) / LIGHTNESS[found.space]
        else:
            red, green, blue = found.to("srgb").coordinates
        alpha = found.alpha
    except (ValueError, NotImplementedError, TypeError, OverflowError, ZeroDivisionError):
        return None
    channels = tuple(min(255, max(0, round(255 * (part or 0.0)))) for part in (red, green, blue))
    return (channels[0], channels[1], channels[2]), min(
        1.0, max(0.0, float(1.0 if alpha is None else alpha))
    )


def blend(top: tuple[Colour, float], below: Colour) -> Colour:
    """Return the colour that a translucent colour gives on another one."""
    (red, green, blue), alpha = top
    mixed = [
        round(alpha * a + (1 - alpha) * b) for a, b in zip((red, green, blue), below, strict=True)
    ]
    return mixed[0], mixed[1], mixed[2]


def as_hex(given: Colour) -> str:
    return "#{:02x}{:02x}{:02x}".format(*given)


@lru_cache(maxsize=4096)
def contrast(one: Colour, other: Colour) -> float:
    """Return the contrast ratio of WCAG 2: 1 for the same colour, 21 for black and white."""
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _luminance(given: Colour) -> float:
    linear = [c / 255 / 12.92 if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in given]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def pixels(value: str, size: float) -> float | None:
    """Return a length in CSS pixels for a font of `size` pixels, or None if it is not a length."""
    number, unit = _number(value)
    if number is None:
        return None
    if unit == "":
        return 0.0 if number == 0 else None
    if unit in LENGTHS:
        return number * LENGTHS[unit]
    if unit in FONT_UNITS:
        return number * (FONT_UNITS[unit] * size or ROOT_SIZE)
    if unit in VIEWPORT_UNITS:
        return number * VIEWPORT_UNITS[unit]
    return None


def percent(value: str) -> float | None:
    number, unit = _number(value)
    return number if unit == "%" else None


def number(value: str) -> float | None:
    """Return a number without a unit, or None."""
    found, unit = _number(value)
    return found if unit == "" else None


@lru_cache(maxsize=4096)
def _number(value: str) -> tuple[float | None, str]:
    if len(value) > 40:
        return None, ""
    token = parse_one_component_value(value)
    if token.type == "number":
        return float(token.value), ""
    if token.type == "percentage":
        return float(token.value), "%"
    if token.type == "dimension":
        return float(token.value), token.lower_unit
    return None, ""
