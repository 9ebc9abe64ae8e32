"""The door that `manage.py run` serves (uvicorn): Django, and MCP beside it."""

import os
from functools import cache
from typing import Any

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mailhub.settings")
pages = get_asgi_application()


@cache
def _mcp() -> Any:
    # A heavy library (half a second) that many servers never need: paid for by the first who asks.
    from tools.mcp import http_app

    return http_app


async def application(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "http" and scope["path"].rstrip("/") == "/mcp":
        await _mcp()(scope, receive, send)
    else:
        await pages(scope, receive, send)
