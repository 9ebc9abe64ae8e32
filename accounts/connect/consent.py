"""OAuth consent: asks Google or Microsoft for access to a mailbox, through one interface."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from django.conf import settings

from accounts.connect import google, microsoft
from accounts.infra.texts import translatable


class Refused(Exception):
    """Failure without access; the text is for the person and holds no text from the provider."""


@dataclass(frozen=True, kw_only=True)
class Consent:
    """The page where the person goes, and the values to check the answer: JSON for the session."""

    url: str
    kept: dict[str, Any] = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Access:
    """Granted access: the secrets to keep, and the abilities they allow (read, draft, send)."""

    scopes: list[str]
    secrets: dict[str, Any] = field(repr=False)
    proven: bool = True  # whether the provider vouches for the address


@dataclass(frozen=True, kw_only=True)
class Way:
    """The consent of one provider: `begin(redirect_uri, address)` and
    `finish(consent, answer, answered_at, address)`; both raise Refused.
    """

    begin: Callable[[str, str], Consent]
    finish: Callable[[Consent, Mapping[str, str], str, str], Access]


NOT_ALLOWED = translatable(
    "The access was not allowed, by you or by your organisation. Nothing was saved."
)


def is_set_up(provider: str) -> bool:
    """Return True if this server can ask the provider for access."""
    if provider == "gmail":
        return bool(settings.GOOGLE_CLIENT_ID or settings.GMAIL_CREDENTIALS_PATH)
    return bool(settings.MICROSOFT_CLIENT_ID)


def ways() -> dict[str, Way]:
    return {
        "microsoft": Way(begin=_begin_microsoft, finish=_finish_microsoft),
        "gmail": Way(begin=_begin_google, finish=_finish_google),
    }


def _begin_microsoft(redirect_uri: str, address: str) -> Consent:
    try:
        flow = microsoft.begin_sign_in(redirect_uri, login_hint=address)
    except microsoft.SignInFailed as error:
        raise Refused(error.sentence) from None
    return Consent(url=flow["auth_uri"], kept=flow)


def _finish_microsoft(
    consent: Consent, answer: Mapping[str, str], answered_at: str, address: str
) -> Access:
    try:
        granted = microsoft.finish_sign_in(consent.kept, answer)
        proven = microsoft.refuse_another(address, granted)
    except microsoft.SignInFailed as error:
        raise Refused(NOT_ALLOWED if error.code == "access_denied" else error.sentence) from None
    if not granted.scopes:
        raise Refused(NOT_ALLOWED)
    return Access(scopes=list(granted.scopes), secrets=granted.secrets, proven=proven)


def _begin_google(redirect_uri: str, address: str) -> Consent:
    try:
        begun = google.begin(google.load_client(), redirect_uri=redirect_uri, login_hint=address)
    except google.CannotConnect as error:
        raise Refused(str(error)) from None
    return Consent(url=begun.url, kept=asdict(begun))


def _finish_google(
    consent: Consent, answer: Mapping[str, str], answered_at: str, address: str
) -> Access:
    if "error" in answer:
        raise Refused(NOT_ALLOWED)
    try:
        grant = google.finish(
            google.load_client(), google.Authorization(**consent.kept), answered_at
        )
        named = google.address_of(grant)
    except google.CannotConnect as error:
        raise Refused(str(error)) from None
    if named.lower() != address:
        raise Refused(
            translatable(
                "Somebody else signed in: Google names another address. Nothing was saved."
            )
        )
    return Access(scopes=grant.abilities, secrets=dict(grant.secrets))
