"""The facts around a message that warnings use."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property, lru_cache

from tools.mail.html.clean import clean_html, split_hidden, text_of
from tools.mail.message.compose import OutgoingMessage
from tools.mail.message.content import Content, without_quote
from tools.warnings import lookalike

HTML_CHARACTERS = 500_000  # of HTML that is parsed
JUDGED_CHARACTERS = (
    200_000  # of a text: more than a person writes, and a limit for the cost of the patterns
)
BEGINNING, END = 12_000, 3_000  # characters of a text that is judged for slips
QUOTE_BEGINS = re.compile(r"(?m)^(?:On .{1,400} wrote:|-{5,} Forwarded message -{5,})$")

BLOCKQUOTE = re.compile(r"<(?P<ends>/?)blockquote\b", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Later:
    """The answers that came after the answered message; the members are of the last that arrived.

    `ids` are the Message-IDs of all of them; without any, none was found. Not `is_whole` if not
    everything could be searched. `is_proven` unless the answered message is gone and no answer names
    it: then they may be older.
    """

    ids: tuple[str, ...]
    from_address: str = ""
    date: datetime | None = None
    arrived: datetime | None = None
    is_proven: bool = False
    is_whole: bool = True


@dataclass(frozen=True, kw_only=True)
class KnownDomain:
    """A domain that the mailbox has written to: since when, and whether somebody there answered."""

    since: datetime
    answered: bool = False


@dataclass(frozen=True, kw_only=True)
class Unconfirmed:
    """The sender of the original if the checks of the mailbox's own server failed."""

    address: str
    checks: str


@dataclass(frozen=True, kw_only=True)
class Context:
    """The facts besides the message.

    `own_domains` are the mailbox's own, `known_domains` those that it has written to, and
    `confirmed_domains` those that a manager calls right although they look like others. `strangers`
    are recipients without a mail in Sent. `unasked` were not looked up, because they are too many
    or Sent could not be read. `prompted_by` is the text of the mail that is answered or forwarded,
    hidden text included. If it is answered, `asked_by` is its From and `answers_to` its Reply-To.
    `left_behind` says in words what a forward of it does not have.
    `draft_from` is the sender that a draft names, if it is not the mailbox.
    `original_is_forged`: it claims to be from the mailbox, but is not in Sent.
    `later` are newer messages of its conversation, and `mine` answers of the mailbox itself to it.
    `quoted` is the quote of the original that mailhub itself wrote into the text of an answer.
    """

    own_domains: frozenset[str]
    known_domains: Mapping[str, KnownDomain] = field(default_factory=dict)
    confirmed_domains: frozenset[str] = frozenset()
    strangers: tuple[str, ...] = ()
    unasked: tuple[str, ...] = ()
    recent_duplicate: bool = False
    open_twin: bool = False
    draft_was_sent: bool = False
    draft_from: str = ""
    original_is_signed: bool = False
    left_behind: str = ""
    reply_all: bool = False
    prompted_by: str = ""
    quoted: str = ""
    asked_by: str = ""
    answers_to: tuple[str, ...] = ()
    later: Later | None = None
    mine: Later | None = None
    original_is_forged: bool = False
    unconfirmed: Unconfirmed | None = None

    @cached_property
    def trusted_domains(self) -> frozenset[str]:
        """Return the domains where somebody has answered, the confirmed and the own ones."""
        answered = (domain for domain, known in self.known_domains.items() if known.answered)
        return self.own_domains | self.confirmed_domains | frozenset(answered)

    @cached_property
    def _index(self) -> lookalike.Index:
        return lookalike.Index(self.known_domains)

    def models_for(self, domain: str) -> frozenset[str]:
        """Return the domains that this one may imitate: the own ones, and those near it that are
        known as long.

        A younger one counts too if somebody has answered there, and nobody here.
        """
        here = self.known_domains.get(domain)
        near = {each: self.known_domains[each] for each in self._index.find_near(domain) - {domain}}
        return self.own_domains | {
            other
            for other, known in near.items()
            if here is None or known.since <= here.since or known.answered > here.answered
        }


def unseen_in(content: Content) -> tuple[str, ...]:
    """Return the text that the proposed HTML hid from its reader."""
    if not content.proposed_html:
        return ()
    return split_hidden(content.proposed_html[:HTML_CHARACTERS]).unseen


@lru_cache(maxsize=4)
def _proposed_text(html: str) -> str:
    """Return the text of the HTML, cached because several warnings read the same text."""
    return text_of(clean_html(html))


def _drop_blockquotes(html: str) -> str:
    kept, depth, begin = [], 0, 0
    for tag in BLOCKQUOTE.finditer(html):
        if not depth:
            kept.append(html[begin : tag.start()])
        depth = max(depth + (-1 if tag["ends"] else 1), 0)
        begin = tag.start()
    return "".join([*kept, "" if depth else html[begin:]])


def own_words(message: OutgoingMessage, context: Context) -> str:
    """Return the text written for this message, hidden or not.

    Only the true quote of the original is left out. A proposer can write lines that look like one,
    and they are judged like all others.
    """
    content = message.request.content
    text = _written_text(content, content.proposed_html[:JUDGED_CHARACTERS])
    return without_quote(text, context.quoted)[:JUDGED_CHARACTERS]


def begin_and_end(words: str) -> str:
    """Return the parts of a long text in which people write to each other.

    The middle of a longer one is a report or a table. Looking for slips in all of it costs seconds.
    """
    if len(words) <= BEGINNING + END:
        return words
    return f"{words[:BEGINNING]}\n{words[-END:]}"


def announcing_words(message: OutgoingMessage) -> str:
    """Return the text without anything that looks like a quote.

    This is for a slip of an honest proposer, who may quote a mail with attachments of its own.
    """
    content = message.request.content
    html = _drop_blockquotes(content.proposed_html[:JUDGED_CHARACTERS])
    text = _written_text(content, html)
    begins = QUOTE_BEGINS.search(text)
    lines = text[: begins.start() if begins else JUDGED_CHARACTERS][:JUDGED_CHARACTERS].split("\n")
    return "\n".join(line for line in lines if not line.startswith(">"))


def _written_text(content: Content, html: str) -> str:
    return _proposed_text(html) if content.proposed_html else content.body
