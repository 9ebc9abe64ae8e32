"""The door for pages and REST under load (gunicorn)."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mailhub.settings")
pages = get_wsgi_application()

# Only after Django is set up: it reads the catalogue of tools.
from mailhub.intake.wsgi import limited  # noqa: E402

application = limited(pages)
