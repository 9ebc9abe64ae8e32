"""OAuth consent: asks Google or Microsoft for access to a mailbox, through one interface."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from django.conf import settings

from accounts.connect import google, microsoft
from accounts.connect.refreshing import CannotConnect
from accounts.infra.texts import translatable


@dataclass(frozen=True, kw_only=True)
class Access:
    """Granted access: the secrets to keep, and the abilities they allow (read, draft, send)."""

    scopes: list[str]
    secrets: dict[str, Any] = field(repr=False)
    proven: bool = True  # whether the provider vouches for the address


@dataclass(frozen=True, kw_only=True)
class Way:
    """The consent of one provider; both functions raise CannotConnect.

    `begin(redirect_uri, address)` returns the page where the person goes, and the values that check
    the answer: JSON for the session. `finish(kept, answer, answered_at, address)` gets them back.
    """

    begin: Callable[[str, str], tuple[str, dict[str, Any]]]
    finish: Callable[[dict[str, Any], Mapping[str, str], str, str], Access]


NOT_ALLOWED = translatable(
    "The access was not allowed, by you or by your organisation. Nothing was saved."
)


def is_set_up(provider: str) -> bool:
    """Return True if this server can ask the provider for access."""
    if provider == "gmail":
        return bool(settings.GOOGLE_CLIENT_ID or settings.GMAIL_CREDENTIALS_PATH)
    return bool(settings.MICROSOFT_CLIENT_ID)


def _begin_microsoft(redirect_uri: str, address: str) -> tuple[str, dict[str, Any]]:
    flow = microsoft.begin_sign_in(redirect_uri, login_hint=address)
    return flow["auth_uri"], flow


def _finish_microsoft(
    kept: dict[str, Any], answer: Mapping[str, str], answered_at: str, address: str
) -> Access:
    try:
        granted = microsoft.finish_sign_in(kept, answer)
        proven = microsoft.refuse_another(address, granted)
    except CannotConnect as error:
        if error.code == "access_denied":
            raise CannotConnect(NOT_ALLOWED) from None
        raise
    if not granted.scopes:
        raise CannotConnect(NOT_ALLOWED)
    return Access(scopes=list(granted.scopes), secrets=granted.secrets, proven=proven)


def _begin_google(redirect_uri: str, address: str) -> tuple[str, dict[str, Any]]:
    begun = google.begin(google.load_client(), redirect_uri=redirect_uri, login_hint=address)
    return begun.url, asdict(begun)


def _finish_google(
    kept: dict[str, Any], answer: Mapping[str, str], answered_at: str, address: str
) -> Access:
    if "error" in answer:
        raise CannotConnect(NOT_ALLOWED)
    grant = google.finish(google.load_client(), google.Authorization(**kept), answered_at)
    if google.address_of(grant).lower() != address:
        raise CannotConnect(
            "Somebody else signed in: Google names another address. Nothing was saved."
        )
    return Access(scopes=grant.abilities, secrets=dict(grant.secrets))


WAYS = {
    "microsoft": Way(begin=_begin_microsoft, finish=_finish_microsoft),
    "gmail": Way(begin=_begin_google, finish=_finish_google),
}
