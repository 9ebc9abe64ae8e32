"""The slowest allowed rate of a body: a grace period, then a minimum rate."""

GRACE_SECONDS = 10.0
BYTES_PER_SECOND = 32 * 1024
PIECE = 64 * 1024
# After a refusal the rest is read and dropped for this time, so that a client that is still sending
# gets the answer.
LINGER_SECONDS = 1.0
LINGER_SILENCE_SECONDS = 0.05
LINGER_BYTES = 4 * 1024 * 1024


def seconds_for(received: int) -> float:
    """Return after how many seconds a body is too slow if `received` bytes have arrived."""
    return GRACE_SECONDS + received / BYTES_PER_SECOND
