#!/usr/bin/env python
"""The command line of mailhub."""

import os
import sys

from django.core.management import execute_from_command_line

from mailhub import environment

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mailhub.settings")
    if sys.argv[1:2] == ["run"]:
        environment.prepare_home()  # before the settings are read: it makes the keys they need
    try:
        execute_from_command_line(sys.argv)
    except KeyboardInterrupt:
        sys.exit(130)  # as a shell says it, without a traceback
