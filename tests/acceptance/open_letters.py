"""Messages of tests/corpus/mail that are not read correctly yet, by class. The list only shrinks."""

ATTACHMENTS = """
"""
CRYPTO = """
"""
HEADERS = """
"""
KINDS = """
"""
QUOTES = """
"""
STRUCTURE = """
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
