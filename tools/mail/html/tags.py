"""The tags of HTML by their names, and its bare text when no parser should see it: one linear pattern
removes the tags. Pure.
"""

import re
from html import unescape

from tools.mail.text.decoding import without_controls

TAG = re.compile(
    r"(?s)<(style|script|head)\b.*?(</\1>|$)|<!--.*?(-->|$)|<[^>]*(>|$)", re.IGNORECASE
)
# Elements without an end tag, including obsolete ones: the first parser writes no end tag for them.
VOID = frozenset(
    "area base basefont bgsound br col embed frame hr img input keygen link meta param source track wbr".split()
)
CHARACTERS = 100_000
TOO_COMPLEX = "[The HTML of this mail is too complex to be shown. This is its bare text, with any hidden text in it.]"


def bare_text(html: str) -> str:
    """Return the words of the HTML below a note about them, in time linear in its length."""
    lines = without_controls(unescape(TAG.sub("\n", html[:CHARACTERS]))).split("\n")
    words = "\n".join(line for line in (" ".join(line.split()) for line in lines) if line)
    more = "\n[…]" if len(html) > CHARACTERS else ""
    return f"{TOO_COMPLEX}\n\n{words}{more}"
