"""How fast a token may propose: a runaway program must not bury the person who reads.

Counted in this process over the last minute; with several web processes each counts for itself.
"""

import math
import threading
import time
from collections import defaultdict, deque
from uuid import UUID

from django.conf import settings

from accounts.caller import Caller
from accounts.problems import Problem

WINDOW_SECONDS = 60.0
_lock = threading.Lock()
_proposed: dict[UUID, deque[float]] = defaultdict(deque)


def count_proposal(caller: Caller) -> None:
    """Raises Problem `rate_limited`, with the seconds until there is room, when the token has proposed too often."""
    if caller.token is None:
        return
    now = time.monotonic()
    with _lock:
        times = _proposed[caller.token.pk]
        while times and times[0] <= now - WINDOW_SECONDS:
            times.popleft()
        if len(times) >= settings.MAILHUB_PROPOSALS_PER_MINUTE:
            wait = max(1, math.ceil(times[0] + WINDOW_SECONDS - now))
            raise Problem(
                "rate_limited", "This token has proposed too often within a minute. Nothing was stored.",
                retry_after=wait,
            )  # fmt: skip
        times.append(now)
