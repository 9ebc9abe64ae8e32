"""The digest of the content that people approve."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any


def digest_of(content: Mapping[str, Any]) -> str:
    """Return the SHA-256 of the canonical JSON, as 64 hex digits.

    Canonical means sorted keys, no white space, UTF-8.
    """
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()
