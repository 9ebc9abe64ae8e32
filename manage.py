#!/usr/bin/env python
"""The command line of mailhub."""

import gc
import os
import sys

from django.core.management import execute_from_command_line

from mailhub import environment

if __name__ == "__main__":
    # Loading makes hundreds of thousands of objects that stay. Python would look through the young
    # ones for rubbish after every 700, which takes a quarter of the time that a command needs to
    # start.
    gc.set_threshold(50_000)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mailhub.settings")
    if sys.argv[1:2] == ["run"]:
        environment.prepare_home()  # before the settings are read: it makes the keys they need
    try:
        execute_from_command_line(sys.argv)
    except KeyboardInterrupt:
        sys.exit(130)  # as a shell says it, without a traceback
