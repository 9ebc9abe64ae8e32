"""The bare text of HTML that no parser should see: one linear pattern removes the tags. Pure."""

import re
from html import unescape

from tools.mail.text.decoding import without_controls

TAG = re.compile(
    r"(?s)<(style|script|head)\b.*?(</\1>|$)|<!--.*?(-->|$)|<[^>]*(>|$)", re.IGNORECASE
)
CHARACTERS = 100_000
TOO_COMPLEX = "[The HTML of this mail is too complex to be shown. This is its bare text, with any hidden text in it.]"


def bare_text(html: str) -> str:
    """Return the words of the HTML below a note about them, in time linear in its length."""
    lines = without_controls(unescape(TAG.sub("\n", html[:CHARACTERS]))).split("\n")
    words = "\n".join(line for line in (" ".join(line.split()) for line in lines) if line)
    more = "\n[…]" if len(html) > CHARACTERS else ""
    return f"{TOO_COMPLEX}\n\n{words}{more}"
