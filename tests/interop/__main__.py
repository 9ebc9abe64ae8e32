"""The page of the results, on standard output."""

import os

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
django.setup()

from tests.interop.matrix import render  # noqa: E402  (after the setup)

print(render(), end="")
