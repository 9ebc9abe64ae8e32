"""The header that marks mail of mailhub itself; apart, because code without Django reads it."""

OWN_HEADER = "X-Mailhub-Own"
