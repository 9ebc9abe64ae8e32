"""Command lines that run as pasted."""

import shlex
import sys
from pathlib import Path

from django import template
from django.conf import settings

register = template.Library()


@register.simple_tag
def manage() -> str:
    """Return how to run manage.py here: on the machine of `make run` with every path, else as in the
    documents, because paths of a server are nobody's business.
    """
    if "sandbox" not in settings.MAILHUB_LOOPBACK_SERVERS:
        return "python manage.py"
    home = shlex.quote(str(settings.MAILHUB_HOME))
    program = Path(settings.BASE_DIR) / "manage.py"
    return f"MAILHUB_HOME={home} {shlex.quote(sys.executable)} {shlex.quote(str(program))}"
