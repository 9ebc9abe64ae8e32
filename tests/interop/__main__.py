"""The page of the results, on standard output."""

import os
import sys

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
django.setup()

from tests.interop.page import render  # noqa: E402  (after the setup)

sys.stdout.write(render())
