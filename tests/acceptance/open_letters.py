"""Messages of tests/corpus/mail that are not read correctly yet, by class. The list only shrinks."""

ATTACHMENTS = """
uuencoded-file-in-text
disposition-in-capitals
"""
CRYPTO = """
rights-protected-by-microsoft
"""
HEADERS = """
"""
KINDS = """
bounce-of-exim-in-text
"""
QUOTES = """
"""
STRUCTURE = """
second-piece-of-a-split-message
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
