"""Values for files that people open in a spreadsheet."""

from typing import Any

# Spreadsheets of East Asia read the wide signs too.
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def escape_formula(value: Any) -> Any:
    """Return the value with a quote if a spreadsheet would run it as a formula."""
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value
