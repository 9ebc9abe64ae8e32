"""Values for files that people open in a spreadsheet."""

from typing import Any


def escape_formula(value: Any) -> Any:
    """Return the value with a quote if a spreadsheet would run it as a formula."""
    return (
        f"'{value}"
        if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r"))
        else value
    )
