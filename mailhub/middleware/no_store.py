"""No-store headers: each response forbids caching, so that no page with a secret can be missed."""

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest
from django.utils.cache import add_never_cache_headers

# Names of views whose answer is the same for everybody and contains no personal data.
CACHEABLE = frozenset({"jsi18n"})


def forbid_caching(answer: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
    """Add `Cache-Control: no-store` to every response; static files do not pass here."""

    def respond(request: HttpRequest) -> Any:
        response = answer(request)
        match = request.resolver_match
        if not (match and match.url_name in CACHEABLE) and "no-store" not in response.get(
            "Cache-Control", ""
        ):
            add_never_cache_headers(response)
        return response

    return respond
