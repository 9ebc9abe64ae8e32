"""The settings of a real process whose wizard may reach the mail servers of the tests, which are on
loopback.
"""

from mailhub.settings import *  # noqa: F403

MAILHUB_WIZARD_REACHES_LOOPBACK = True
