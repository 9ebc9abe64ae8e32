"""Whether the person is really there: asked before what is risky."""

from django.http import HttpRequest, HttpResponse


def asked_again(request: HttpRequest) -> HttpResponse | None:
    """The answer to give instead, when a sign-in is not fresh enough; None to go on. Every sign-in counts as fresh."""
    return None
