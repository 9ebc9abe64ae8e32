"""mailhub's settings with the command `seed_load`."""

from mailhub.settings import *  # noqa: F403

INSTALLED_APPS = [*INSTALLED_APPS, "tests.load"]  # noqa: F405
