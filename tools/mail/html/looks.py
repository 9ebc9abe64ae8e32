"""The look of an element in a browser: its colours, the colours behind it, and the size of its
letters.

Both readers of HTML in `tools.mail.html.visibility` use it, so that reading, previewing and warning
agree. Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from accounts.infra.foreign_text import parse_number
from tools.mail.html.styles import Colour, blend, colour, contrast, number, percent, pixels

Attributes = Mapping[str, str]

WHITE: Colour = (255, 255, 255)
INK: Colour = (27, 28, 30)
LINK: Colour = (29, 90, 168)
LEGIBLE = 1.6  # contrast: light grey on white is barely visible, and common in mail
SMALLEST, LARGEST = 9.0, 96.0  # pixels; letters of such a size are unchanged
BASE_SIZE = 15.5
GROUNDS = 12  # different colours behind one text; more are not followed
SIZES = {"xx-small": 9.0, "x-small": 10.0, "small": 13.0, "medium": 16.0, "large": 18.0, "x-large": 24.0,
         "xx-large": 32.0, "xxx-large": 48.0}  # fmt: skip
FONT_SIZES = (10.0, 10.0, 13.0, 16.0, 18.0, 24.0, 32.0, 48.0)
FACTORS = {"h1": 2.0, "h2": 1.5, "h3": 1.17, "h5": 0.83, "h6": 0.67, "small": 5 / 6, "sub": 5 / 6, "sup": 5 / 6,
           "big": 1.2, "rt": 0.5}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Look:
    """The look of an element. `grounds` are all colours behind it or around it: its text may stick
    out of its box.

    `pictured`: a picture is behind it, so the colour behind its text is unknown.
    """

    ink: Colour = INK
    ground: Colour = WHITE
    grounds: frozenset[Colour] = frozenset({WHITE})
    size: float = BASE_SIZE
    faded: bool = False
    pictured: bool = False

    def is_seen(self) -> bool:
        return self.pictured or (not self.faded and contrast(self.ink, self.ground) >= LEGIBLE)


def size_of(
    tag: str, attributes: Attributes, style: Mapping[str, str], parent: float
) -> tuple[float, bool]:
    """Return the height of a letter in pixels, and True if the style gives it (else tag and parent
    do).
    """
    given = style.get("font-size", "")
    if given in SIZES:
        return SIZES[given], True
    if given in ("smaller", "larger"):
        return parent * (5 / 6 if given == "smaller" else 1.2), True
    part = percent(given) if given else None
    found = parent * part / 100 if part is not None else pixels(given, parent) if given else None
    if found is not None and found >= 0:
        return found, True
    if tag == "font" and (steps := _font_size(attributes.get("size", ""))) is not None:
        return steps, False
    return parent * FACTORS.get(tag, 1.0), False


def _font_size(given: str) -> float | None:
    text = given.strip()
    steps = parse_number(text.lstrip("+-")[:3])
    if steps is None:
        return None
    steps = 3 + steps if text.startswith("+") else 3 - steps if text.startswith("-") else steps
    return FONT_SIZES[min(7, max(1, steps))]


def ink_of(
    tag: str, attributes: Attributes, style: Mapping[str, str]
) -> tuple[Colour, float] | None:
    """Return the text colour that the element itself names."""
    for name in ("-webkit-text-fill-color", "color"):
        if (found := colour(style.get(name, ""))) is not None:
            return found
    return legacy_colour(attributes.get("color", "")) if tag == "font" else None


def ground_of(
    tag: str, attributes: Attributes, style: Mapping[str, str]
) -> tuple[Colour, float] | None:
    """Return the background colour that the element itself names."""
    found = colour(style.get("background-color", ""))
    if found is None and "bgcolor" in attributes:
        found = legacy_colour(attributes["bgcolor"])
    return found if found and found[1] > 0 else None


def legacy_colour(value: str) -> tuple[Colour, float] | None:
    """Return the colour of an attribute.

    Browsers make a colour of any word there; only real colours count here.
    """
    value = value.strip().lower()
    if value == "transparent" or "(" in value:
        return None
    return colour(value) or colour(f"#{value}")


def paint(
    look: Look, *, ink: tuple[Colour, float] | None, ground: tuple[Colour, float] | None
) -> Look:
    """Return the look with another text colour, another background, or both."""
    if ground is not None:
        behind = blend(ground, look.ground)
        grounds = look.grounds | {behind}
        look = replace(
            look, ground=behind, grounds=grounds if len(grounds) <= GROUNDS else look.grounds
        )
    if ink is not None:
        look = replace(look, ink=blend(ink, look.ground), faded=ink[1] < 0.1)
    return look


def sticks_out(look: Look) -> bool:
    """Return True if the text would be illegible on a colour around it."""
    return any(contrast(look.ink, ground) < LEGIBLE for ground in look.grounds)


def opacity_of(style: Mapping[str, str]) -> float:
    value = style.get("opacity", "")
    found = number(value)
    if found is None:
        part = percent(value)
        found = 1.0 if part is None else part / 100
    return found
