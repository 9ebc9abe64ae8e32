"""Messages of tests/corpus/mail that are not read correctly yet, by class. The list only shrinks."""

ATTACHMENTS = """
name-in-rfc2231-pieces
name-with-decomposed-letters
uuencoded-file-in-text
disposition-in-capitals
"""
CRYPTO = """
rights-protected-by-microsoft
"""
HEADERS = """
blanks-before-the-colon
byte-order-mark-before-the-headers
"""
KINDS = """
bounce-of-exim-in-text
"""
QUOTES = """
"""
STRUCTURE = """
text-that-only-points-to-the-page
related-start-names-the-second-page
first-piece-of-a-split-message
second-piece-of-a-split-message
quoted-printable-soft-breaks
base64-label-on-plain-text
flowed-text-with-delsp
"""
TNEF = """
"""
OPEN = frozenset(
    "\n".join(
        (
            ATTACHMENTS,
            CRYPTO,
            HEADERS,
            KINDS,
            QUOTES,
            STRUCTURE,
            TNEF,
        )
    ).split()
)
