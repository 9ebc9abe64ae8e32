"""One name for the pages of the sandbox: a browser at 127.0.0.1 is led to the public address.

A session belongs to one name, and a passkey needs a name that is no number. Programs stay where they
are, because they send no Sec-Fetch-Mode.
"""

from collections.abc import Callable
from typing import Any
from urllib.parse import urlunsplit

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect

from accounts.infra.foreign_text import parse_url
from mailhub.sandbox.state import SANDBOX


def lead_to_one_name(answer: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:

    def respond(request: HttpRequest) -> Any:
        return _lead(request) or answer(request)

    return respond


def _lead(request: HttpRequest) -> HttpResponse | None:
    if (
        SANDBOX not in settings.MAILHUB_LOOPBACK_SERVERS
        or request.method != "GET"
        or request.headers.get("Sec-Fetch-Mode") != "navigate"
    ):
        return None
    host, _, port = request.get_host().rpartition(":")
    public = parse_url(settings.MAILHUB_PUBLIC_URL)
    if host != "127.0.0.1" or public.hostname != "localhost" or port != str(public.port):
        return None
    return HttpResponseRedirect(
        urlunsplit((public.scheme, public.netloc, request.path, request.META["QUERY_STRING"], ""))
    )
