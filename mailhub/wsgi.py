"""The door for pages and REST under load (gunicorn)."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mailhub.settings")
application = get_wsgi_application()
