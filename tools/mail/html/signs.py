"""Letters that a font or a line shows as another sign: raised digits, and Word's fonts of symbols.

Pure.
"""

from collections.abc import Mapping

Signs = Mapping[int, int | str]

POWERS: Signs = dict(str.maketrans("0123456789+-()n", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁽⁾ⁿ"))
INDICES: Signs = dict(str.maketrans("0123456789+-()", "₀₁₂₃₄₅₆₇₈₉₊₋₍₎"))
# Outlook writes the smiley as the letter J in Wingdings, and the marks of its lists in both fonts.
WINGDINGS: Signs = dict(str.maketrans("JKLàßèüûþ¨§ØvqlnuÜ·", "☺😐☹→←➔✓✗☑☐▪➢❖❑●■◆➲•"))
SYMBOL: Signs = {0xB7: "•", 0xAE: "→", 0xAC: "←", 0xDE: "⇒"}
PRIVATE_USE = 0xF000  # Word moves the letters of its symbol fonts here
PRIVATE: Signs = {PRIVATE_USE + code: sign for code, sign in {**WINGDINGS, **SYMBOL}.items()}


def sign_font(face: str) -> Signs | None:
    """Return the signs of a font of symbols, or None for a font of letters."""
    if not face:
        return None
    first = face.partition(",")[0].strip(" \"'").lower()
    return WINGDINGS if first == "wingdings" else SYMBOL if first == "symbol" else None


def as_signs(text: str, signs: Signs) -> str:
    """Return the text in these signs; text that has letters without one stays as it is."""
    letters = text.strip()
    if signs in (POWERS, INDICES) and not all(ord(letter) in signs for letter in letters):
        return text
    return text.translate(signs)
