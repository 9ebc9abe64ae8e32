"""The WSGI application for pages and REST under load (gunicorn)."""

import os
import sys

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mailhub.settings")
# Beside threads that parse hostile mail an answer waits for the interpreter lock many times. At the
# default of 5 ms /healthz took up to 0.53 s, at 1 ms it takes 0.19 s.
sys.setswitchinterval(0.001)
pages = get_wsgi_application()

# Imported after Django's setup, because they read the catalogue of tools. Imported now, because the
# first request would otherwise wait for the pages' modules.
import mailhub.urls  # noqa: E402, F401
from mailhub.intake.wsgi import limit_bodies  # noqa: E402

application = limit_bodies(pages)
