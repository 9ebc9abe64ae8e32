"""The shell of the installed app: its service worker, and the page that it shows offline.

Both are the same for everybody: they are made without the request, so they hold nothing of a person.
"""

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any

from django.contrib.staticfiles import finders
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.templatetags.static import static
from django.urls import reverse
from django.utils.translation import get_language
from django.views.decorators.http import require_safe

FILES = ("mailhub/style.css", "mailhub/people.css", "mailhub/phone.css", "mailhub/favicon.svg")
WORKER = "mailhub/app/worker.js"


@require_safe
def service_worker(request: HttpRequest) -> HttpResponse:
    """Return the service worker. Its address sets its scope: the whole of mailhub.

    A changed file or language makes another script, and the browser then loads the shell again.
    """
    shell: dict[str, Any] = {
        "version": f"{_digest()}-{get_language()}",
        "page": reverse("offline"),
        "files": [static(name) for name in FILES],
        "icon": static("mailhub/app/icon-192.png"),
        "badge": static("mailhub/app/badge-96.png"),
    }
    script = f"const SHELL = {json.dumps(shell)};\n{_read(WORKER).decode()}"
    return HttpResponse(script, content_type="text/javascript; charset=utf-8")


@require_safe
def offline(request: HttpRequest) -> HttpResponse:
    """Return the page that says that there is no connection."""
    return HttpResponse(render_to_string("offline.html"))


@cache
def _digest() -> str:
    """Return a digest of everything that the shell is made of."""
    digest = hashlib.sha256(b"".join(map(_read, (*FILES, WORKER))))
    digest.update(render_to_string("offline.html").encode())
    return digest.hexdigest()[:12]


def _read(name: str) -> bytes:
    found = finders.find(name)
    assert isinstance(found, str), name
    return Path(found).read_bytes()
