"""Every component on one page, with the same classes as everywhere; in debug alone."""

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

TOKENS = "bg surface raised sunken line line-strong field ink ink-2 ink-3 accent accent-soft warn warn-soft bad bad-soft"


@require_safe
def styleguide(request: HttpRequest) -> HttpResponse:
    if not settings.DEBUG:
        raise Http404
    return render(request, "styleguide.html", {"tokens": TOKENS.split()})
