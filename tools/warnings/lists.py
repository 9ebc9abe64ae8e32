"""Sentences that name only the first things of a longer list."""

from accounts.infra.texts import ntranslatable

NAMED = 3


def and_more(count: int) -> str:
    """Return the sentence for the things without a name here; "" if each has one."""
    return ntranslatable("And %(count)s more.", "And %(count)s more.", count) if count > 0 else ""
