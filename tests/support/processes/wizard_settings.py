"""The settings of a real process in which people may name the servers of the tests, which are on
loopback.
"""

from mailhub.settings import *  # noqa: F403
from tests.support.loopback import EveryServer

# The servers of a test begin after the process, on ports of their own.
MAILHUB_LOOPBACK_SERVERS = MAILHUB_LOOPBACK_FOR_PEOPLE = EveryServer()
