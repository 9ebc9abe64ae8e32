"""The figures of mailhub's folding beside those of other libraries, on the same mails.

Run `python -m tests.tools.quotes.compare` in an environment that also has mail-parser-reply,
quotequail and talon. mailhub does not need them, so they are no requirement. A library that reads
HTML gets the HTML; the others get its text.
"""

import importlib
import sys
import time
from collections.abc import Callable

from tests.tools.quotes.corpus import Letter, list_letters
from tests.tools.quotes.figures import measure, read_folded
from tools.mail.message.page_text import page_text


def _text_of(letter: Letter) -> str:
    return letter.text if letter.text is not None else page_text(letter.html or "").text


def with_mail_parser_reply() -> Callable[[Letter], str]:
    module = importlib.import_module("mailparser_reply")
    parser = module.EmailReplyParser(languages=["en", "de", "fr", "es", "zh", "ja", "it", "nl"])
    return lambda letter: parser.parse_reply(text=_text_of(letter)) or ""


def with_quotequail() -> Callable[[Letter], str]:
    module = importlib.import_module("quotequail")

    def read(letter: Letter) -> str:
        if letter.html is None:
            return "\n".join(text for shown, text in module.quote(letter.text) if shown)
        shown = "".join(html for shown, html in module.quote_html(letter.html) if shown)
        return page_text(shown).text

    return read


def with_talon() -> Callable[[Letter], str]:
    module = importlib.import_module("talon.quotations")

    # Its reading of HTML raises errors with lxml of 2025 and later.
    return lambda letter: str(module.extract_from_plain(_text_of(letter)))


READERS: dict[str, Callable[[], Callable[[Letter], str]]] = {
    "mailhub": lambda: read_folded,
    "mail-parser-reply": with_mail_parser_reply,
    "quotequail": with_quotequail,
    "talon": with_talon,
}


def main() -> None:
    letters = list_letters()
    print("| reader | mails | right | precision | recall | answer text lost | ms for a mail |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name, make in READERS.items():
        try:
            read = make()
        except ImportError as error:
            print(f"{name}: not installed ({error})", file=sys.stderr)
            continue
        for held_out in (False, True):
            chosen = [letter for letter in letters if letter.held_out is held_out]
            started = time.perf_counter()
            found = measure(chosen, read)
            spent = (time.perf_counter() - started) * 1000 / len(chosen)
            print(
                f"| {name}, {'held out' if held_out else 'in sample'} | {found.mails} | {found.perfect}"
                f" | {found.precision:.1%} | {found.recall:.1%} | {found.own_lost:,} of {found.own:,}"
                f" | {spent:.2f} |"
            )


if __name__ == "__main__":
    main()
