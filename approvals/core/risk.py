"""The risk of an action as a number, only for the order of lists; it decides nothing."""

from collections.abc import Iterable, Mapping
from enum import IntEnum


class Risk(IntEnum):
    """The rank of an action: the most severe of its warnings."""

    NONE = 0
    NOTICE = 1
    RISK = 2


def rank_risk(warnings: Iterable[Mapping[str, str]]) -> Risk:
    """Return the rank of the warnings of a preview, as JSON."""
    severities = {warning.get("severity", "") for warning in warnings}
    if "risk" in severities:
        return Risk.RISK
    return Risk.NOTICE if severities - {"fact"} else Risk.NONE
