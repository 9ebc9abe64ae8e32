"""The page to which a person returns after adding a way to sign in or a second factor."""

from django.http import HttpRequest
from django.urls import reverse

LANDING = "after_sign_in_is_set_up"


def land_at(request: HttpRequest, path: str) -> None:
    """Keep a path of ours for this session, until the person has been there."""
    request.session[LANDING] = path


def take_landing(request: HttpRequest) -> str:
    """Return the kept path, once; then the page with the ways to sign in."""
    return str(request.session.pop(LANDING, "") or reverse("security"))
