"""Access to a Microsoft 365 mailbox: how it is granted, and how its tokens are refreshed (msal).

There are three ways to get access: the web (authorization code with PKCE), a device code on the
command line, and client credentials for an application mailbox. All produce the same secrets. The
response names the granted permissions; mailhub never parses a token.

Microsoft refuses a whole set of permissions if one of them is not allowed, at a sign-in and at
every refresh. So the permissions can be configured, and a refresh asks for those that were granted,
then for all that are left:
https://learn.microsoft.com/entra/identity-platform/scopes-oidc#the-default-scope.
A refresh does not start with `.default`, because no document says that personal accounts know it.
"""

import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import time
from typing import Any
from urllib.parse import quote

import httpx2
from django.conf import settings

from accounts.connect.refreshing import CannotConnect, GrantEnded, NoToken
from accounts.connect.tenants import EVERY_TENANT, lets_every_tenant_in
from accounts.infra.credentials import Secrets
from accounts.infra.database import give_back_connection
from accounts.infra.foreign_text import origin_of
from accounts.infra.texts import translatable

READ, DRAFT, SEND, PROFILE = "Mail.Read", "Mail.ReadWrite", "Mail.Send", "User.Read"
PERMISSIONS = (READ, DRAFT, SEND)  # the permissions that concern mail
TIMEOUT = httpx2.Timeout(15.0)
TENANT_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# The tenant of all personal accounts:
# https://learn.microsoft.com/entra/identity-platform/id-token-claims-reference
PERSONAL = "9188040d-6c67-4c5b-b112-36a304b66dad"
PERSONAL_DOMAINS = {"outlook.com", "hotmail.com", "live.com", "msn.com"}
# Errors that only a person can resolve:
# https://learn.microsoft.com/entra/identity-platform/reference-error-codes
ENDED = {"invalid_grant", "interaction_required", "consent_required", "login_required"}


@dataclass(frozen=True, kw_only=True)
class Granted:
    """Result of a sign-in: the secrets to keep, and the granted permissions that concern mail."""

    scopes: tuple[str, ...]
    secrets: dict[str, Any] = field(repr=False)

    @property
    def tenant(self) -> str:
        return str(self.secrets.get("identity", {}).get("tid", ""))


def begin_sign_in(redirect_uri: str, *, login_hint: str = "") -> dict[str, Any]:
    """Begin a sign-in in the browser and return the flow, which belongs in the session.

    The flow holds state, nonce and PKCE verifier; its `auth_uri` is the page where the person
    goes. Raises CannotConnect if people of any tenant in the world could sign in.
    """
    with _application() as app, warnings.catch_warnings():
        if lets_every_tenant_in():
            raise CannotConnect(EVERY_TENANT)
        # msal recommends that the answer is posted, but a POST from another site arrives without
        # our session's cookie.
        warnings.filterwarnings("ignore", message="response_mode")
        flow: dict[str, Any] = app.initiate_auth_code_flow(
            _scopes((*default_permissions(), PROFILE)),
            redirect_uri=redirect_uri,
            login_hint=login_hint or None,
        )
    return flow


def finish_sign_in(flow: dict[str, Any], answer: Mapping[str, str]) -> Granted:
    """Redeem the browser's answer for access.

    Raises CannotConnect, also if the answer belongs to another flow.
    """
    if answer.get("state") != flow["state"]:
        raise CannotConnect("This sign-in was not begun here. Begin again.")
    with _application() as app:
        result = app.acquire_token_by_auth_code_flow(flow, dict(answer))
    granted = _with_identity(_build_granted(result, default_permissions()), result)
    refuse_tenant(granted.tenant)
    return granted


def by_device_code(show: Callable[[str], object], permissions: Sequence[str] = ()) -> Granted:
    """Return the access after a sign-in on another device; `show` gets the page and the code."""
    asked = permissions or default_permissions()
    with _application(public=True) as app:
        flow = app.initiate_device_flow(_scopes((*asked, PROFILE)))
        if "message" not in flow:
            raise _build_error(flow)
        show(str(flow["message"]))
        result = app.acquire_token_by_device_flow(flow)
        granted = _build_granted(result, asked)
        if "id_token_claims" in result:
            granted = _with_identity(granted, result)
    if settings.MICROSOFT_ALLOWED_TENANTS:
        refuse_tenant(granted.tenant)
    return Granted(scopes=granted.scopes, secrets={**granted.secrets, "public": True})


def by_client_credentials(permissions: Sequence[str] = ()) -> Granted:
    """Return the application's own access to the mailboxes it was given.

    Microsoft does not name the permissions, so the person who connects the mailbox does. A missing
    permission causes an error when it is needed.
    """
    secrets = client_credentials(Secrets())
    return Granted(
        scopes=tuple(permissions or default_permissions()), secrets={**secrets, "application": True}
    )


def client_credentials(secrets: Secrets) -> dict[str, Any]:
    with _application(confidential=True) as app:
        result = app.acquire_token_for_client(_default_scope())
    return {**secrets, **_tokens(result)}


def refresh(secrets: Secrets) -> dict[str, Any]:
    """Return a mailbox's secrets with new tokens and the permissions they have now.

    Raises GrantEnded or NoToken.
    """
    try:
        if secrets.get("application"):
            return client_credentials(secrets)
        if not secrets.get("refresh_token"):
            raise GrantEnded  # Microsoft gave none, so the access ends with the access token
        with _application(public=bool(secrets.get("public"))) as app:
            asked = tuple(secrets.get("granted", default_permissions()))
            result = app.acquire_token_by_refresh_token(
                secrets["refresh_token"], _scopes(asked) or _default_scope()
            )
            if _lacks_consent(result):
                result = app.acquire_token_by_refresh_token(
                    secrets["refresh_token"], _default_scope()
                )
        return {**secrets, **_build_granted(result, asked).secrets}
    except CannotConnect as error:
        if error.code in ENDED:
            raise GrantEnded from None
        raise NoToken from None


def refuse_tenant(tenant: str) -> None:
    """Raise CannotConnect for a tenant that is not allowed, or that Microsoft did not name."""
    named = settings.MICROSOFT_TENANT.lower()
    allowed = settings.MICROSOFT_ALLOWED_TENANTS or ([named] if TENANT_ID.fullmatch(named) else [])
    # If MICROSOFT_TENANT names one tenant, Microsoft signs in only its people. Only an id can be
    # compared here.
    if not tenant or (allowed and tenant not in allowed):
        raise CannotConnect("Accounts of this organisation may not connect mailboxes here.")


def refuse_another(address: str, granted: Granted) -> bool:
    """Check that the person who signed in has this address; return whether Microsoft vouches for
    it.

    Microsoft lets an organisation use only domains that it has proven as sign-in names. The field
    `mail` is free text that its administrators write
    (https://learn.microsoft.com/entra/identity-platform/migrate-off-email-claim-authorization), so
    it counts only in the domain of the sign-in name. Raises CannotConnect for another address.
    """
    address = address.strip().lower()
    me = _ask_graph("/me?$select=mail,userPrincipalName", granted.secrets["access_token"])
    name, contact = str(me.get("userPrincipalName")).lower(), str(me.get("mail")).lower()
    if address not in (name, contact):
        raise CannotConnect("Somebody else signed in: Microsoft names another address.")
    domain = address.rpartition("@")[2]
    if granted.tenant == PERSONAL:  # a personal account can have an address of any provider
        return domain in PERSONAL_DOMAINS
    return address == name or name.rpartition("@")[2] == domain


def prove_application(address: str, access_token: str) -> None:
    """Check that the application may open this mailbox. Raises CannotConnect."""
    _ask_graph(f"/users/{quote(address, safe='@')}/mailFolders/inbox?$select=id", access_token)


def _ask_graph(path: str, access_token: str) -> dict[str, Any]:
    try:
        give_back_connection()
        answer = httpx2.get(
            f"{settings.GRAPH_BASE_URL}{path}",
            headers={"Authorization": f"Bearer {access_token}"},
            timeout=TIMEOUT,
        )
        found = answer.json() if answer.is_success else None
    except (httpx2.HTTPError, ValueError):
        raise CannotConnect("Microsoft Graph cannot be reached.") from None
    if not isinstance(found, dict):
        raise CannotConnect(
            translatable(
                "Microsoft Graph refused the request (%(status)s).", status=answer.status_code
            ),
        )
    return found


@contextmanager
def _application(*, confidential: bool = False, public: bool = False) -> Iterator[Any]:
    """Yield an msal application that does not retry by itself and keeps no cache of its own.

    `public` leaves out the secret, because a device-code sign-in must continue without it.
    """
    if not settings.MICROSOFT_CLIENT_ID:
        raise CannotConnect("MICROSOFT_CLIENT_ID is not set. See docs/use/permissions.md.")
    if confidential and not settings.MICROSOFT_CLIENT_SECRET:
        raise CannotConnect("An application mailbox needs MICROSOFT_CLIENT_SECRET.")
    import msal  # brings requests: only for a sign-in or a refresh

    authority = settings.MICROSOFT_AUTHORITY or "https://login.microsoftonline.com"
    give_back_connection()
    with httpx2.Client(timeout=TIMEOUT) as http:
        options = {
            "client_id": settings.MICROSOFT_CLIENT_ID,
            "authority": f"{authority}/{settings.MICROSOFT_TENANT}",
            "http_client": http,
            **({"instance_discovery": False} if settings.MICROSOFT_AUTHORITY else {}),
        }
        try:
            if settings.MICROSOFT_CLIENT_SECRET and not public:
                secret = settings.MICROSOFT_CLIENT_SECRET
                yield msal.ConfidentialClientApplication(client_credential=secret, **options)
            else:
                yield msal.PublicClientApplication(**options)
        except CannotConnect:
            raise
        except httpx2.HTTPError:
            raise CannotConnect("The sign-in service of Microsoft cannot be reached.") from None
        except Exception:
            # msal raises an error of its own for a status 5xx, and any error for an odd answer.
            raise CannotConnect("The sign-in service of Microsoft gave no usable answer.") from None


def default_permissions() -> tuple[str, ...]:
    """Return the permissions to ask for when the caller names none."""
    return tuple(settings.MICROSOFT_PERMISSIONS) or (DRAFT, SEND)


def _build_granted(result: Mapping[str, Any], asked: Sequence[str]) -> Granted:
    tokens = _tokens(result)
    # RFC 6749, 5.1: without a scope in the answer, all that was asked for is granted.
    named = [
        scope.rpartition("/")[2] for scope in str(result.get("scope") or " ".join(asked)).split()
    ]
    scopes = tuple(scope for scope in PERMISSIONS if scope in named)
    return Granted(scopes=scopes, secrets={**tokens, "granted": list(scopes)})


def _with_identity(granted: Granted, result: Mapping[str, Any]) -> Granted:
    """Bind the access to the account: `oid` and `tid` stay the same when its addresses change.

    Microsoft has just sent the id token over TLS, so its signature need not be checked (OpenID
    Connect Core, 3.1.3.7). Raises CannotConnect without a token, or with one for another
    application.
    """
    claims = result.get("id_token_claims") or {}
    if (
        not (claims.get("oid") and claims.get("tid"))
        or claims.get("aud") != settings.MICROSOFT_CLIENT_ID
    ):
        raise CannotConnect("Microsoft did not say which account signed in.")
    identity = {"oid": str(claims["oid"]).lower(), "tid": str(claims["tid"]).lower()}
    return Granted(scopes=granted.scopes, secrets={**granted.secrets, "identity": identity})


def _lacks_consent(result: Mapping[str, Any]) -> bool:
    """Return True if a permission that was asked for is not granted, or none is (AADSTS65001)."""
    return result.get("suberror") == "consent_required" or 65001 in (
        result.get("error_codes") or ()
    )


def _tokens(result: Mapping[str, Any]) -> dict[str, Any]:
    if "access_token" not in result:
        raise _build_error(result)
    tokens: dict[str, Any] = {
        "access_token": result["access_token"],
        "expires_at": time() + float(result.get("expires_in", 0)),
    }
    # If the answer has no new refresh token, the old one stays valid.
    return tokens | (
        {"refresh_token": result["refresh_token"]} if result.get("refresh_token") else {}
    )


def _build_error(result: Mapping[str, Any]) -> CannotConnect:
    code = str(result.get("error") or "no_answer")[:60]
    return CannotConnect(translatable("Microsoft refused the sign-in (%(code)s).", code=code), code)


def _scopes(names: Sequence[str]) -> list[str]:
    """Return the permissions as scopes; outside the public cloud they need the Graph's address."""
    origin = origin_of(settings.GRAPH_BASE_URL)
    return (
        list(names)
        if origin == "https://graph.microsoft.com"
        else [f"{origin}/{name}" for name in names]
    )


def _default_scope() -> list[str]:
    return [f"{origin_of(settings.GRAPH_BASE_URL)}/.default"]
