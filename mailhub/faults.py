"""The answer to an error that no view expects."""

import sys

from django.http import HttpRequest, HttpResponse
from django.views.defaults import server_error

from accounts.infra.database import is_unavailable
from accounts.infra.problems import BUSY_SECONDS


def answer_fault(request: HttpRequest) -> HttpResponse:
    """Return the page for an error: 503 with Retry-After if the database is away or busy, else 500."""
    response = server_error(request)
    error = sys.exception()
    if error is not None and is_unavailable(error):
        response.status_code = 503
        response["Retry-After"] = str(BUSY_SECONDS)
    return response
