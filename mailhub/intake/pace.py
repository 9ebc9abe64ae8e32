"""How slowly a body may come: a grace at the beginning, then a minimum rate."""

GRACE_SECONDS = 10.0
BYTES_PER_SECOND = 32 * 1024
PIECE = 64 * 1024
# After a refusal the rest is read and dropped for so long, so that a client in the middle of
# sending hears the answer.
LINGER_SECONDS = 1.0
LINGER_SILENCE_SECONDS = 0.05
LINGER_BYTES = 4 * 1024 * 1024


def seconds_for(received: int) -> float:
    """Return how many seconds after its beginning a body with so many bytes received is too slow."""
    return GRACE_SECONDS + received / BYTES_PER_SECOND
