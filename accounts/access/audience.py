"""The addresses of mailhub's surfaces: what an access token is for, and where a program signs in."""

from collections.abc import Collection

from django.conf import settings

from accounts.access.caller import Surface
from accounts.infra.foreign_text import parse_url
from accounts.infra.problems import Problem
from accounts.infra.texts import translatable
from accounts.models import USUAL_SCOPES

PATHS: dict[Surface, str] = {"mcp": "/mcp", "rest": "/api/v1", "agent": "/ai"}
RESOURCE_METADATA = "/.well-known/oauth-protected-resource"


def issuer() -> str:
    """Return the address of this server, which is also the name of its authorization server."""
    return str(settings.MAILHUB_PUBLIC_URL).rstrip("/")


def is_for(resources: Collection[str], surface: Surface) -> bool:
    """Return True if an access token for these resources may be used on a surface."""
    paths = [path_of(resource) for resource in resources]
    return any(path is not None and f"{PATHS[surface]}/".startswith(f"{path}/") for path in paths)


def path_of(resource: str) -> str | None:
    """Return the path of a resource of this server, without a slash at its end; otherwise None."""
    try:
        asked, own = parse_url(resource), parse_url(issuer())
        same_host = (asked.hostname, _port(asked.port, asked.scheme)) == (
            own.hostname,
            _port(own.port, own.scheme),
        )
    except ValueError:
        return None
    if asked.scheme != own.scheme or not same_host or asked.username is not None:
        return None
    if asked.fragment:
        return None
    path = asked.path.rstrip("/")
    return path if path in ("", *PATHS.values()) else None


def _port(port: int | None, scheme: str) -> int | None:
    return port or {"https": 443, "http": 80}.get(scheme)


# --- Challenges (RFC 6750 and RFC 9728)


def unauthenticated(surface: Surface, *, has_token: bool) -> Problem:
    """Return the refusal of a missing or useless token. Why it is useless is not said.

    Its challenge tells a program where it can ask a person for access, and with which scope.
    """
    error = {"error": "invalid_token"} if has_token else {}
    return Problem(
        "unauthenticated",
        translatable(
            "The token is unknown, expired or revoked. Create another one on the page Tokens."
        )
        if has_token
        else translatable(
            "There is no token. Send the header Authorization: Bearer mh_…, with the word Bearer."
        ),
        headers={
            "WWW-Authenticate": _challenge(surface, **error, scope=" ".join(USUAL_SCOPES)),
        },
    )


def lacks_scope(surface: Surface, *, held: Collection[str], needed: str) -> Problem:
    """Return the refusal for a missing scope; its challenge has all scopes that are needed."""
    scope = " ".join(sorted({*held, needed}))
    return Problem(
        "forbidden",
        translatable("The token lacks the scope %(scope)s.", scope=needed),
        headers={
            "WWW-Authenticate": _challenge(surface, error="insufficient_scope", scope=scope),
        },
    )


def _challenge(surface: Surface, **fields: str) -> str:
    path = PATHS.get(surface, "")
    parts = {**fields, "resource_metadata": f"{issuer()}{RESOURCE_METADATA}{path}"}
    return "Bearer " + ", ".join(f'{name}="{value}"' for name, value in parts.items())
