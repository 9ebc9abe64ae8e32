"""Proves every pattern of the product, and rewrites the list of proven ones.

python -m tests.security.prove_patterns

It takes about a minute of CPU. If a pattern is slow, it prints it and leaves the list as it is.
"""

import os
import sys

import django


def main() -> str | None:
    """Write the list, or return the slow patterns."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
    django.setup()
    # The patterns import modules of the product, which need Django.
    from tests.security.patterns import every_pattern, slow, write_list

    patterns = every_pattern()
    faults = slow(patterns)
    if faults:
        return "\n".join(faults)
    write_list(patterns)
    return None


if __name__ == "__main__":
    sys.exit(main())
