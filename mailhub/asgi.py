"""The door that `manage.py run` serves (uvicorn)."""

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mailhub.settings")
application = get_asgi_application()
