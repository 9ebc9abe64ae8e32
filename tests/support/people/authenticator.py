"""The authenticator app of a person."""

import threading
import time

from allauth.mfa.totp.internal.auth import format_hotp_value, hotp_value

STEP_SECONDS = 30
USED_WITHIN = 5.0


def code_of(key: str) -> str:
    """Return the code that the app shows now for this key.

    As a person would, wait for the next one if this one ends within USED_WITHIN seconds.
    """
    left = STEP_SECONDS - time.time() % STEP_SECONDS
    if left < USED_WITHIN:
        threading.Event().wait(left + 0.1)
    return str(format_hotp_value(hotp_value(key, int(time.time()) // STEP_SECONDS)))
