"""The text of a message in pieces, and their order. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tools.mail.html.tags import bare_text
from tools.mail.message.content import as_html
from tools.mail.text.characters import without_invisible

# Words of a text that only says where its page is: "Your program cannot show HTML", "Webansicht".
OF_A_PAGE = re.compile(
    r"(?i)\bhtml\b|\bbrowser|\bweb ?(?:page|version|ansicht|seite)|navigateur|navegador|浏览器|ブラウザ"
)
FEW_WORDS = 40
MANY_TIMES = 2


@dataclass(frozen=True, kw_only=True)
class Block:
    """A piece of the text, in the forms that its sender wrote."""

    plain: str | None = None
    html: str | None = None

    @property
    def has_words(self) -> bool:
        return has_words(self.plain) or has_words(self.html and bare_text(self.html))


def join(blocks: Sequence[Block]) -> tuple[str | None, str | None]:
    """Return the text and the HTML of all blocks.

    The text is None if one of them has only HTML: then the HTML holds all of them.
    """
    spoken = _merge([block for block in blocks if block.has_words]) or list(blocks[:1])
    is_html = any(block.html is not None for block in spoken)
    html = [as_html(each.plain or "") if each.html is None else each.html for each in spoken]
    plain = [block.plain for block in spoken if block.plain is not None]
    whole = len(plain) == len(spoken) and spoken
    text = (
        plain[0] if whole and len(plain) == 1 else "\n\n".join(each.strip("\n") for each in plain)
    )
    return text if whole else None, "\n".join(html) if is_html else None


def _merge(blocks: Sequence[Block]) -> list[Block]:
    """Return the blocks; a text followed by its own HTML counts once, as programs write it that do
    not know multipart/alternative.
    """
    found: list[Block] = []
    for block in blocks:
        before = found[-1] if found else block
        if block.plain is None and before.html is None and _letters(before) == _letters(block):
            found[-1] = Block(plain=before.plain, html=block.html)
        else:
            found.append(block)
    return found


def _letters(block: Block) -> str:
    return "".join(without_invisible(block.plain or bare_text(block.html or "")).split())


def is_worth_reading(text: str | None, page: str) -> bool:
    """Return True if a text is the message, and not empty or only a hint to read its page."""
    if not has_words(text) or text is None:
        return not has_words(page)
    words = text.split()
    is_hint = len(words) <= FEW_WORDS and OF_A_PAGE.search(text) is not None
    return not is_hint or len(page.split()) < MANY_TIMES * len(words)


def has_words(text: str | None) -> bool:
    return bool(text and without_invisible(text).strip())
