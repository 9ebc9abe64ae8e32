"""The settings of the test run, with a test database that is kept between runs."""

import os

from tests.settings import *  # noqa: F403

DATABASES["default"]["TEST"] = {"NAME": os.environ["MUTANTS_DATABASE"]}  # noqa: F405
