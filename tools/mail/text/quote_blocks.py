"""Quoted lines in a row, their attribution, and the choice which of them are folded. Pure, linear."""

from collections.abc import Sequence
from dataclasses import dataclass

from tools.mail.text import quote_words as words
from tools.mail.text.quote_lines import Line
from tools.mail.text.signatures import find_signature

ATTRIBUTION_LINES = 5
GAP = 2  # blank lines between an attribution and its quote
FEW_LINES, SOME_LINES = 3, 6


@dataclass(kw_only=True)
class Block:
    """Quoted lines in a row, from `begin` up to `end`, with the attribution above them."""

    begin: int
    end: int
    sure: bool  # something says that it is a quote: an attribution, or the HTML


def find_blocks(lines: Sequence[Line], subject: str, end: int) -> list[Block]:
    blocks: list[Block] = []
    place = 0
    while place < end:
        if not lines[place].is_inside:
            place += 1
            continue
        begin = place
        while place < end and (lines[place].is_inside or not lines[place].has_words):
            place += 1
        stop = place
        while not lines[stop - 1].has_words and not lines[stop - 1].is_inside:
            stop -= 1
        if not _is_prompt(lines[begin:stop]):
            floor = blocks[-1].end if blocks else 0
            if block := _judge_block(lines, subject, begin, stop, floor):
                blocks.append(block)
    return blocks


def _is_prompt(lines: Sequence[Line]) -> bool:
    """Return True for lines of Python's prompt, which begin like a quote of a quote of a quote."""
    given = [line.text for line in lines if line.has_words]
    return bool(given) and all(text.startswith((">>> ", "... ")) for text in given)


def _judge_block(
    lines: Sequence[Line], subject: str, begin: int, end: int, floor: int
) -> Block | None:
    """Return the block with its attribution; None for an indented text without one."""
    above = _attribution_above(lines, subject, begin, end, floor)
    block = lines[begin:end]
    sure = above < begin or any(line.whole or line.around for line in block)
    if not sure:
        inside = [line for line in block if line.has_words][:ATTRIBUTION_LINES]
        sure = any(
            words.is_dated_attribution(join_lines(inside[:number], strip=True))
            for number in range(1, len(inside) + 1)
        )
    if not sure and not any(line.quoted for line in block):
        return None
    return Block(begin=with_rule_above(lines, above), end=end, sure=sure)


def _attribution_above(
    lines: Sequence[Line], subject: str, begin: int, end: int, floor: int
) -> int:
    """Return the place of the attribution above a block, or `begin` if it has none."""
    last = begin - 1
    while last >= floor and begin - last <= GAP and not lines[last].has_words:
        last -= 1
    if last < floor or not lines[last].has_words:
        return begin
    if lines[last].head:
        while last > floor and (lines[last - 1].head or _is_blank_before_head(lines, last - 1)):
            last -= 1
        return last
    for first in range(last, max(last - ATTRIBUTION_LINES, floor - 1), -1):
        text = lines[first].text.rstrip()
        if not text or (first < last and text.endswith(words.ENDS)):
            break
        if words.is_dated_attribution(join_lines(lines[first : last + 1])):
            above = first - 1
            if lines[first].text.lstrip().startswith("<") and above >= floor:
                return above if lines[above].has_words else first
            return first
    size = sum(line.has_words for line in lines[begin:end])
    enough = FEW_LINES if words.is_reply(subject) else SOME_LINES
    text = lines[last].text.strip()
    if words.is_bare_attribution(text) and (size >= enough or words.MAIL_ADDRESS.search(text)):
        return last
    return begin


def _is_blank_before_head(lines: Sequence[Line], place: int) -> bool:
    return place > 0 and not lines[place].has_words and lines[place - 1].head


def with_rule_above(lines: Sequence[Line], place: int) -> int:
    """Return the place of a line of dashes, or of a divider, directly above, else the place."""
    above = place - 1
    while above >= 0 and place - above <= GAP and not lines[above].text.strip():
        above -= 1
    if above < 0:
        return place
    text = lines[above].text.strip()
    if words.RULE.fullmatch(text) or words.begins_original(text):
        return above
    return place


def choose_folded(
    lines: Sequence[Line], subject: str, blocks: Sequence[Block], end: int
) -> list[Block]:
    """Return the blocks to fold.

    A block with another one below stays if somebody wrote between them: its reader needs it to
    understand the answer.
    """
    folded = []
    if blocks:  # a signature at the end is no answer
        end = find_signature(lines, blocks[-1].end, end)
    for number, block in enumerate(blocks):
        after = blocks[number + 1].begin if number + 1 < len(blocks) else end
        answered = any(line.has_words for line in lines[block.end : after])
        if answered and (number or number + 1 < len(blocks)):
            continue
        if block.sure or _looks_left_over(lines, subject, block, answered=answered):
            folded.append(block)
    return folded


def _looks_left_over(lines: Sequence[Line], subject: str, block: Block, *, answered: bool) -> bool:
    """Return True for quoted lines without an attribution that an answer left at its end, or at
    its beginning.
    """
    if not words.is_reply(subject):
        return False
    size = sum(line.has_words for line in lines[block.begin : block.end])
    above = next(
        (line.text.rstrip() for line in reversed(lines[: block.begin]) if line.has_words), ""
    )
    if not above:
        return size >= SOME_LINES
    return not answered and size >= FEW_LINES and not above.endswith(words.COLONS)


def join_lines(lines: Sequence[Line], *, strip: bool = False) -> str:
    """Return the lines as one; `strip` removes the signs of a quote."""
    texts = (line.text[: words.LONGEST_LINE].lstrip("> ") if strip else line.text for line in lines)
    return " ".join(" ".join(texts).split())
