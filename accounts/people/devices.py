"""Known browsers: a signed cookie names the browser and the people who have signed in with it, and
gives no access.
"""

import secrets
from dataclasses import dataclass

from django.conf import settings
from django.core import signing
from django.http import HttpRequest, HttpResponse

from accounts.models import User

SALT = "accounts.devices"
KEPT_SECONDS = 365 * 86_400
AT_MOST = 10  # people of one browser


@dataclass(frozen=True, kw_only=True)
class Device:
    """A browser with the ids of the people who have signed in with it, the last one first."""

    id: str
    people: tuple[int, ...] = ()


def device_of(request: HttpRequest) -> Device | None:
    """Return the browser that a request comes from; None if nobody has signed in with it."""
    text = request.COOKIES.get(settings.MAILHUB_DEVICE_COOKIE, "")
    try:
        known = signing.loads(text, salt=SALT, max_age=KEPT_SECONDS) if text else None
        return (
            Device(id=str(known["id"]), people=tuple(map(int, known["people"]))) if known else None
        )
    except (signing.BadSignature, KeyError, TypeError, ValueError):
        return None


def read_id(request: HttpRequest) -> str:
    """Return the id of the browser that a request comes from; empty if nobody has signed in with it."""
    device = getattr(request, "device", None) or device_of(request)
    return device.id if device else ""


def remember_device(request: HttpRequest, person: User) -> bool:
    """Record that a person has signed in with this browser; return True if it is new for them."""
    before = device_of(request)
    people = before.people if before else ()
    others = [each for each in people if each != person.pk]
    device = Device(
        id=before.id if before else secrets.token_urlsafe(12),
        people=(person.pk, *others[: AT_MOST - 1]),
    )
    request.device = device  # type: ignore[attr-defined]
    return person.pk not in people


def write_cookie(request: HttpRequest, response: HttpResponse) -> None:
    """Set the browser's cookie after a sign-in."""
    device: Device | None = getattr(request, "device", None)
    if device is not None:
        response.set_cookie(
            settings.MAILHUB_DEVICE_COOKIE,
            signing.dumps({"id": device.id, "people": device.people}, salt=SALT),
            max_age=KEPT_SECONDS,
            secure=settings.SESSION_COOKIE_SECURE,
            httponly=True,
            samesite="Lax",
        )
