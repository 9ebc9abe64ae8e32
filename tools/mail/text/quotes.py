"""The quoted original and the signature in the text of a mail, which a reader may fold away. Pure, linear.

What is folded must be sure: an answer between quoted lines, a forwarded mail, and text that only
looks like a quote stay. HTML tells its structure by marks (`tools.mail.html.quotes`); text is judged
by its lines.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from tools.mail.text import quote_words as words
from tools.mail.text.quote_blocks import (
    ATTRIBUTION_LINES,
    FEW_LINES,
    choose_folded,
    find_blocks,
    join_lines,
    with_rule_above,
)
from tools.mail.text.quote_lines import Line, count_marks, read_lines, without_marks
from tools.mail.text.signatures import find_signature

OWN, QUOTED, SIGNED = 0, 1, 2
MOST_LINES = 20_000  # of a mail that is judged; a longer one stays whole
HEAD_LINES = 14  # of a header block, with long lists of recipients
SHORT_COMMENT = 300  # characters


@dataclass(frozen=True, kw_only=True)
class Folded:
    """A text without what was folded, and the numbers of characters that were.

    `all_below`: everything below an attribution or a header block was folded. Its lines have no
    signs, so answers could be between them.
    """

    text: str
    quoted: int = 0
    signature: int = 0
    all_below: bool = False


@dataclass(kw_only=True)
class _Mail:
    """The lines of a mail while they are judged; `plan` has OWN, QUOTED or SIGNED for each."""

    lines: list[Line]
    subject: str
    people: frozenset[str]
    plan: bytearray = field(init=False)
    all_below: bool = False

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
    if text.count("\n") > MOST_LINES or count_marks(text) > MOST_LINES:
        return Folded(text=without_marks(text))
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
            if (
                planned == QUOTED
                and begin < last
                and any(line.has_words for line in mail.lines[end:])
            ):
                number = sum(bool(row.strip()) for row in rows)
                kept += ["", f"[{number} quoted line{'s' if number != 1 else ''}]", ""]
        begin = end
    return Folded(
        text="\n".join(kept),
        quoted=counts[QUOTED],
        signature=counts[SIGNED],
        all_below=mail.all_below,
    )


def _plan_signatures(mail: _Mail) -> None:
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
    blocks = find_blocks(mail.lines, mail.subject, end)
    own = "\n".join(
        line.text.strip()
        for line in mail.lines[: blocks[0].begin if blocks else end]
        if line.has_words
    )
    if _sends_reader_below(own):
        return
    for block in choose_folded(mail.lines, mail.subject, blocks, end):
        _plan(mail, block.begin, block.end, QUOTED)
    if below is not None:
        mail.all_below = True
        _plan(mail, below, len(mail.lines), QUOTED)


def _plan(mail: _Mail, begin: int, end: int, planned: int) -> None:
    mail.plan[begin:end] = bytes((planned,)) * (end - begin)


def _sends_reader_below(own: str) -> bool:
    if words.ANSWERS_INSIDE.search(own[:5_000]):
        return True
    return len(own) <= SHORT_COMMENT and words.POINTS_BELOW.search(own) is not None


def _find_forward(lines: Sequence[Line]) -> int:
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
    quoted_until = max(
        (place for place, line in enumerate(mail.lines) if line.is_inside), default=0
    )
    for place in range(end):
        line = mail.lines[place]
        structure = structure or line.below
        if line.quoted or line.whole or not line.has_words or words.RULE.fullmatch(line.text):
            continue
        if line.indented and not structure:
            continue
        content = _after_head(mail.lines, place, structure=structure, quoted_until=quoted_until)
        if content is None or (not structure and _is_announced(mail.lines, place)):
            structure = False
            continue
        if not mail.is_answer(place, content) or _has_coloured_answers(mail.lines, content):
            return None
        first = next((each for each in mail.lines[content:end] if each.has_words), None)
        if first is not None and (first.quoted or (first.indented and not line.indented)):
            for each in mail.lines[place:content]:
                each.head = True
            continue
        return with_rule_above(mail.lines, place)
    return None


def _has_coloured_answers(lines: Sequence[Line], place: int) -> bool:
    """Return True if some words of the first original have a chosen colour, and others do not."""
    found: set[str] = set()
    for at in range(place, len(lines)):
        line = lines[at]
        if line.has_words:
            if words.begins_original(line.text) or words.label_of(line.text)[0] == "from":
                break
            found.add(line.coloured)
    return "some" in found or {"", "all"} <= found


def _is_announced(lines: Sequence[Line], place: int) -> bool:
    """Return True if the line above ends with a colon: then the text shows something."""
    above = place - 1
    while above >= 0 and not lines[above].has_words:
        above -= 1
    return above >= 0 and lines[above].text.rstrip().endswith(words.COLONS)


def _after_head(
    lines: Sequence[Line], place: int, *, structure: bool, quoted_until: int
) -> int | None:
    """Return the place after the lines that introduce an original here, or None."""
    if words.begins_original(lines[place].text):
        after = _after_labels(lines, _skip_blank(lines, place + 1), few=True)
        if after is None:
            after = _after_attribution(lines, _skip_blank(lines, place + 1))
        return place + 1 if after is None else after
    if words.label_of(lines[place].text)[0]:
        return _after_labels(lines, place, few=structure)
    if place < quoted_until or (place and lines[place - 1].has_words):
        return None
    after = _after_attribution(lines, place)
    if after is None:
        return None
    joined = join_lines(lines[place:after])
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
        if words.is_dated_attribution(join_lines(lines[place:end])):
            return end
        if lines[end - 1].text.rstrip().endswith(words.ENDS):
            return None
    return None


def _skip_blank(lines: Sequence[Line], place: int) -> int:
    while place < len(lines) and not lines[place].text.strip():
        place += 1
    return place
