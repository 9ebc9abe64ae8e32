"""No-store headers: each response forbids caching, so that no page with a secret can be missed."""

from collections.abc import Callable
from inspect import iscoroutinefunction
from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.cache import add_never_cache_headers
from django.utils.decorators import sync_and_async_middleware

# Names of views whose answer is the same for everybody and contains no personal data.
CACHEABLE = frozenset({"jsi18n"})


@sync_and_async_middleware
def forbid_caching(answer: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
    """Add `Cache-Control: no-store` to every response. Static files do not pass here, because an
    earlier middleware answers them.
    """
    if iscoroutinefunction(answer):

        async def respond_async(request: HttpRequest) -> Any:
            return _forbid(request, await answer(request))

        return respond_async

    def respond(request: HttpRequest) -> Any:
        return _forbid(request, answer(request))

    return respond


def _forbid(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    match = request.resolver_match
    if not (match and match.url_name in CACHEABLE) and "no-store" not in response.get(
        "Cache-Control", ""
    ):
        add_never_cache_headers(response)
    return response
