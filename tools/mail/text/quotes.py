"""The quoted original and the signature in the text of a mail, which a reader may fold away. Pure, linear.

What is folded must be sure: an answer between quoted lines, a forwarded mail, and text that only
looks like a quote stay. HTML tells its structure by marks (`tools.mail.html.quotes`); text is judged
by its lines.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from tools.mail.text import quote_words as words
from tools.mail.text.quote_lines import Line, read_lines, without_marks
from tools.mail.text.signatures import find_signature

OWN, QUOTED, SIGNED = 0, 1, 2
HEAD_LINES = 14  # of a header block, with long lists of recipients
ATTRIBUTION_LINES = 5
GAP = 2  # blank lines between an attribution and its quote
FEW_LINES, SOME_LINES = 3, 6
SHORT_COMMENT = 300  # characters


@dataclass(frozen=True, kw_only=True)
class Folded:
    """A text without what was folded, and the numbers of characters that were."""

    text: str
    quoted: int = 0
    signature: int = 0


@dataclass(kw_only=True)
class Block:
    """Quoted lines in a row, from `begin` up to `end`, with the attribution above them."""

    begin: int
    end: int
    sure: bool  # something says that it is a quote: an attribution, or the HTML


@dataclass(kw_only=True)
class _Mail:
    """The lines of a mail while they are judged; `plan` has OWN, QUOTED or SIGNED for each."""

    lines: list[Line]
    subject: str
    people: frozenset[str]
    plan: bytearray = field(init=False)

    def __post_init__(self) -> None:
        self.plan = bytearray(len(self.lines))

    def is_answer(self, begin: int, end: int) -> bool:
        """Return True if the mail answers the mail that these lines introduce."""
        if words.is_reply(self.subject):
            return True
        addresses = {
            each.lower()
            for line in self.lines[begin:end]
            for each in words.MAIL_ADDRESS.findall(line.text[: words.LONGEST_LINE])
        }
        return bool(addresses & self.people)


def fold(text: str, *, subject: str = "", people: Collection[str] = ()) -> Folded:
    """Return the text without the quoted original and the signature; `people` are the addresses
    to which the mail went.

    If nothing would be left, nothing is folded.
    """
    mail = _Mail(
        lines=read_lines(text),
        subject=subject,
        people=frozenset(address.lower() for address in people),
    )
    if not words.is_forward(subject):
        _plan_quotes(mail)
    _plan_signatures(mail)
    if not any(
        line.has_words and planned == OWN
        for line, planned in zip(mail.lines, mail.plan, strict=True)
    ):
        return Folded(text=without_marks(text))
    return _assemble(mail)


def _assemble(mail: _Mail) -> Folded:
    kept: list[str] = []
    counts = [0, 0, 0]
    begin = 0
    last = max(place for place, planned in enumerate(mail.plan) if planned == OWN)
    while begin < len(mail.lines):
        planned, end = mail.plan[begin], begin
        while end < len(mail.lines) and mail.plan[end] == planned:
            end += 1
        rows = [line.text for line in mail.lines[begin:end]]
        if planned == OWN:
            kept += rows
        else:
            counts[planned] += len("\n".join(rows).strip())
            if planned == QUOTED and begin < last and any(map(_is_written, mail.lines[end:])):
                number = sum(bool(row.strip()) for row in rows)
                kept += ["", f"[{number} quoted line{'s' if number != 1 else ''}]", ""]
        begin = end
    return Folded(text="\n".join(kept), quoted=counts[QUOTED], signature=counts[SIGNED])


def _is_written(line: Line) -> bool:
    return line.has_words


def _plan_signatures(mail: _Mail) -> None:
    """Plan the signatures above what is folded, and at the end."""
    ends = [
        place
        for place in range(1, len(mail.plan))
        if mail.plan[place] == QUOTED and mail.plan[place - 1] == OWN
    ]
    if mail.plan and mail.plan[-1] == OWN:
        ends.append(len(mail.plan))
    for end in ends:
        begin = end
        while begin and mail.plan[begin - 1] == OWN and not mail.lines[begin - 1].quoted:
            begin -= 1
        _plan(mail, find_signature(mail.lines, begin, end), end, SIGNED)


# Quotes -------------------------------------------------------------------------------------------


def _plan_quotes(mail: _Mail) -> None:
    end = _find_forward(mail.lines)
    below = _find_original(mail, end)
    if below is not None:
        end = below
    blocks = _find_blocks(mail, end)
    own = "\n".join(
        line.text.strip()
        for line in mail.lines[: blocks[0].begin if blocks else end]
        if line.has_words
    )
    if _sends_reader_below(own):
        return
    for block in _folded_blocks(mail, blocks, end):
        _plan(mail, block.begin, block.end, QUOTED)
    if below is not None:
        _plan(mail, below, len(mail.lines), QUOTED)


def _plan(mail: _Mail, begin: int, end: int, planned: int) -> None:
    mail.plan[begin:end] = bytes((planned,)) * (end - begin)


def _sends_reader_below(own: str) -> bool:
    if words.ANSWERS_INSIDE.search(own[:5_000]):
        return True
    return len(own) <= SHORT_COMMENT and words.POINTS_BELOW.search(own) is not None


def _find_forward(lines: Sequence[Line]) -> int:
    """Return the place of the first forwarded message, or the number of lines."""
    inside = 0
    for place, line in enumerate(lines):
        if not line.has_words or line.quoted:
            continue
        inside = inside + 1 if line.whole else 0
        if inside <= FEW_LINES and (line.forward or words.begins_forward(line.text)):
            return place
    return len(lines)


def _find_original(mail: _Mail, end: int) -> int | None:
    """Return the place from which on everything is an original without any signs before its
    lines.
    """
    structure = False
    for place in range(end):
        line = mail.lines[place]
        structure = structure or line.below
        if line.quoted or line.whole or line.indented or not line.has_words:
            continue
        content = _after_head(mail, place, structure=structure)
        if content is None:
            structure = structure and not line.has_words
            continue
        if not mail.is_answer(place, content):
            return None
        first = next((each for each in mail.lines[content:end] if each.has_words), None)
        if first is not None and (first.quoted or first.indented):
            for each in mail.lines[place:content]:
                each.head = True
            continue
        return _with_rule_above(mail.lines, place)
    return None


def _after_head(mail: _Mail, place: int, *, structure: bool) -> int | None:
    """Return the place after the lines that introduce an original here, or None."""
    lines = mail.lines
    if words.begins_original(lines[place].text):
        after = _after_labels(lines, _skip_blank(lines, place + 1), few=True)
        if after is None:
            after = _after_attribution(lines, _skip_blank(lines, place + 1))
        return place + 1 if after is None else after
    if words.label_of(lines[place].text)[0]:
        return _after_labels(lines, place, few=structure)
    if place and lines[place - 1].has_words:
        return None
    after = _after_attribution(lines, place)
    if after is None or any(each.quoted or each.indented for each in lines[after:]):
        return None
    joined = _join(lines[place:after])
    return after if words.MAIL_ADDRESS.search(joined) or words.TIME.search(joined) else None


def _after_labels(lines: Sequence[Line], place: int, *, few: bool) -> int | None:
    """Return the place after a header block with sender, date and subject; `few`: two are enough."""
    found: dict[str, str] = {}
    last = place
    for at in range(place, min(place + HEAD_LINES, len(lines))):
        text = lines[at].text
        if not text.strip():
            if found and not few:
                break
            continue
        name, value = words.label_of(text)
        if not found and name not in ("from", "date", "subject"):
            return None
        if name:
            found.setdefault(name, value)
            last = at + 1
        elif at >= last + FEW_LINES:
            break
    needed = {"from", "date", "subject"} & found.keys()
    if "from" not in needed or len(needed) < (2 if few else 3):
        return None
    if "date" in found and not any(map(str.isdigit, found["date"])):
        return None
    return last


def _after_attribution(lines: Sequence[Line], place: int) -> int | None:
    """Return the place after an attribution with a date that begins here, or None."""
    for end in range(place + 1, min(place + ATTRIBUTION_LINES, len(lines)) + 1):
        if not lines[end - 1].has_words:
            return None
        if words.is_dated_attribution(_join(lines[place:end])):
            return end
    return None


def _find_blocks(mail: _Mail, end: int) -> list[Block]:
    lines = mail.lines
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
            if block := _judge_block(mail, begin, stop, floor):
                blocks.append(block)
    return blocks


def _is_prompt(lines: Sequence[Line]) -> bool:
    """Return True for lines of Python's prompt, which begin like a quote of a quote of a quote."""
    given = [line.text for line in lines if line.has_words]
    return bool(given) and all(text.startswith((">>> ", "... ")) for text in given)


def _judge_block(mail: _Mail, begin: int, end: int, floor: int) -> Block | None:
    """Return the block with its attribution; None for an indented text without one."""
    lines = mail.lines
    above = _attribution_above(mail, begin, end, floor)
    block = lines[begin:end]
    sure = above < begin or any(line.whole or line.around for line in block)
    if not sure:
        inside = [line for line in block if line.has_words][:ATTRIBUTION_LINES]
        sure = any(
            words.is_dated_attribution(_join(inside[:number], strip=True))
            for number in range(1, len(inside) + 1)
        )
    if not sure and not any(line.quoted for line in block):
        return None
    return Block(begin=_with_rule_above(lines, above), end=end, sure=sure)


def _attribution_above(mail: _Mail, begin: int, end: int, floor: int) -> int:
    """Return the place of the attribution above a block, or `begin` if it has none."""
    lines = mail.lines
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
        if not lines[first].has_words:
            break
        if words.is_dated_attribution(_join(lines[first : last + 1])):
            above = first - 1
            if lines[first].text.lstrip().startswith("<") and above >= floor:
                return above if lines[above].has_words else first
            return first
    sure = words.is_reply(mail.subject) or end - begin >= SOME_LINES
    if sure and words.is_bare_attribution(lines[last].text.strip()):
        return last
    return begin


def _is_blank_before_head(lines: Sequence[Line], place: int) -> bool:
    return place > 0 and not lines[place].has_words and lines[place - 1].head


def _with_rule_above(lines: Sequence[Line], place: int) -> int:
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


def _folded_blocks(mail: _Mail, blocks: Sequence[Block], end: int) -> list[Block]:
    """Return the blocks to fold.

    A block with another one below stays if somebody wrote between them: its reader needs it to
    understand the answer.
    """
    folded = []
    for number, block in enumerate(blocks):
        after = blocks[number + 1].begin if number + 1 < len(blocks) else end
        answered = any(line.has_words for line in mail.lines[block.end : after])
        if answered and (number or number + 1 < len(blocks)):
            continue
        if block.sure or _looks_left_over(mail, block, answered=answered):
            folded.append(block)
    return folded


def _looks_left_over(mail: _Mail, block: Block, *, answered: bool) -> bool:
    """Return True for quoted lines without an attribution that an answer left at its end, or at
    its beginning.
    """
    if not words.is_reply(mail.subject):
        return False
    size = sum(line.has_words for line in mail.lines[block.begin : block.end])
    above = next(
        (line.text.rstrip() for line in reversed(mail.lines[: block.begin]) if line.has_words), ""
    )
    if not above:
        return size >= SOME_LINES
    return not answered and size >= FEW_LINES and not above.endswith(words.COLONS)


# Lines --------------------------------------------------------------------------------------------


def _skip_blank(lines: Sequence[Line], place: int) -> int:
    while place < len(lines) and not lines[place].text.strip():
        place += 1
    return place


def _join(lines: Sequence[Line], *, strip: bool = False) -> str:
    """Return the lines as one; `strip` removes the signs of a quote."""
    texts = (line.text[: words.LONGEST_LINE].lstrip("> ") if strip else line.text for line in lines)
    return " ".join(" ".join(texts).split())
