"""The ASGI application that `manage.py web` serves (uvicorn): Django and MCP."""

import contextlib
import ctypes
import os
import sys
import warnings
from functools import cache
from typing import Any

import django
from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIHandler
from django.http import HttpRequest
from django.http.response import HttpResponseBase

M_MMAP_THRESHOLD = -3  # mallopt(3)
LARGE = 1024 * 1024

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mailhub.settings")
# Beside threads that parse hostile mail an answer waits for the interpreter lock many times. At the
# default of 5 ms /healthz took up to 0.53 s, at 1 ms it takes 0.19 s.
sys.setswitchinterval(0.001)
# Each large block goes back to the system as soon as it is free. By default glibc keeps up to 32 MB of
# what each thread has freed, and again what comes beside it: eight threads that read large mails kept
# half a gigabyte. Other systems have no such call.
with contextlib.suppress(OSError, AttributeError):
    ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, LARGE)
# WhiteNoise yields a file synchronously, which Django handles in a thread.
warnings.filterwarnings("ignore", message="StreamingHttpResponse must consume")


class Pages(ASGIHandler):
    """Django over ASGI, with one call of a thread for all middleware and the view.

    Django's own chain goes to the thread and back at each middleware. With it two thirds of the time
    of a process were spent on the way.
    """

    def load_middleware(self, is_async: bool = True) -> None:
        super().load_middleware(is_async=False)

    async def get_response_async(self, request: HttpRequest) -> HttpResponseBase:
        return await sync_to_async(self.get_response)(request)


django.setup(set_prefix=False)
pages = Pages()

# Imported after Django's setup, because they read the catalogue of tools. Imported now, because the
# first request would otherwise wait for the pages' modules.
import mailhub.urls  # noqa: E402, F401
from accounts.infra.streams import release_before_answer  # noqa: E402
from mailhub.intake.bodies import limit_bodies  # noqa: E402
from tools.surfaces.waiting import wait_for_news  # noqa: E402

waiting_pages = wait_for_news(pages)


@cache
def _mcp() -> Any:
    # The library takes half a second to load, and many servers never need it. So the first request
    # loads it.
    from tools.surfaces.mcp_http import http_app

    return http_app


async def _route(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "http" and scope["path"].rstrip("/") == "/mcp":
        await _mcp()(scope, receive, release_before_answer(_forbid_caching(send)))
    else:
        await waiting_pages(scope, receive, release_before_answer(send))


def _forbid_caching(send: Any) -> Any:
    """Forbid caching, as `mailhub.middleware.no_store` does for all other responses."""

    async def send_uncached(message: Any) -> None:
        if message["type"] == "http.response.start":
            others = [
                (name, value)
                for name, value in message.get("headers", [])
                if name != b"cache-control"
            ]
            message = {**message, "headers": [*others, (b"cache-control", b"no-store")]}
        await send(message)

    return send_uncached


application = limit_bodies(_route)
