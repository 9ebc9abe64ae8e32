"""The settings of a real process in which people may name the servers of the tests, which are on
loopback.
"""

from mailhub.settings import *  # noqa: F403

MAILHUB_LOOPBACK_FOR_PEOPLE = MAILHUB_LOOPBACK_SERVERS  # noqa: F405
