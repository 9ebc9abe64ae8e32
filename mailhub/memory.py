"""How the servers use memory."""

import contextlib
import ctypes

M_MMAP_THRESHOLD = -3  # mallopt(3)
LARGE = 1024 * 1024


def give_back_large_blocks() -> None:
    """Let each large block go back to the system as soon as it is free.

    By default glibc keeps up to 32 MB of what each thread has freed, and again what comes beside it:
    eight threads that read large mails kept half a gigabyte. Other systems have no such call.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, LARGE)
