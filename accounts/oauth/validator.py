"""The rules of the OAuth server: those of the library, with stricter redirects, PKCE, codes and tokens."""

from typing import Any

from allauth.idp.oidc.internal.oauthlib.request_validator import OAuthLibRequestValidator
from allauth.idp.oidc.internal.oauthlib.utils import get_validator_context
from allauth.idp.oidc.internal.resources import InvalidTargetError
from allauth.idp.oidc.models import Client, Token
from django.utils import timezone
from oauthlib.common import Request
from oauthlib.oauth2.rfc6749.errors import InvalidGrantError, TemporarilyUnavailableError
from oauthlib.oauth2.rfc8628.grant_types import DeviceCodeGrant

from accounts.access import audience
from accounts.access.quotas import Quota, count
from accounts.models import SCOPES, USUAL_SCOPES, digest_of
from accounts.oauth import devices, grants, programs, redirects, tokens

# Of one sign-in. An access token is valid for an hour, and each used refresh token stays for weeks.
REFRESHES = Quota(
    name="oauth-refreshes",
    amount=60,
    seconds=3600,
    refusal="This sign-in was refreshed too often. Wait, then send the same refresh token again.",
)


class Validator(OAuthLibRequestValidator):
    """One validator serves one request: it keeps the code or refresh token that was presented."""

    def __init__(self) -> None:
        super().__init__()
        self.presented: Token | None = None

    # Every program is public. A secret that anybody gets by registering proves nothing, and PKCE
    # binds the code to the program that asked.

    def client_authentication_required(self, request: Request, *args: Any, **kwargs: Any) -> bool:
        return False

    def authenticate_client(self, request: Request, *args: Any, **kwargs: Any) -> bool:
        return False

    def _lookup_client(self, request: Request, client_id: object) -> Client | None:
        return programs.find(client_id)

    # --- The authorization request

    def validate_redirect_uri(
        self, client_id: str, redirect_uri: str, request: Request, *args: Any, **kwargs: Any
    ) -> bool:
        return redirects.matches(redirect_uri, request.client.get_redirect_uris())

    def get_default_redirect_uri(
        self, client_id: str, request: Request, *args: Any, **kwargs: Any
    ) -> None:
        """Return nothing, because a program always says where it waits for the answer."""

    def validate_response_type(
        self,
        client_id: str,
        response_type: str,
        client: Any,
        request: Request,
        *args: Any,
        **kw: Any,
    ) -> bool:
        return response_type == "code"

    def is_pkce_required(self, client_id: str, request: Request) -> bool:
        return True

    def get_default_scopes(
        self, client_id: str, request: Request, *args: Any, **kwargs: Any
    ) -> list[str]:
        return list(USUAL_SCOPES)

    def validate_scopes(
        self,
        client_id: str,
        scopes: list[str],
        client: Any,
        request: Request,
        *args: Any,
        **kw: Any,
    ) -> bool:
        """Accept a request with at least one scope of this server; the others are ignored, as RFC
        6749 (3.3) allows.
        """
        return any(scope in SCOPES for scope in scopes)

    def save_authorization_code(
        self, client_id: str, code: dict[str, str], request: Request, *args: Any, **kwargs: Any
    ) -> None:
        tokens.keep(
            tokens.CODE,
            code["code"],
            client=request.client,
            person=request.user,
            scopes=request.scopes,
            until=timezone.now() + tokens.CODE_LIFETIME,
            data={
                "family": request.grant.pk.hex,
                "resources": get_validator_context().requested_resources,
                "redirect_uri": request.redirect_uri,
                "code_challenge": request.code_challenge,
            },
        )

    # --- The token request

    def validate_code(
        self, client_id: str, code: str, client: Any, request: Request, *args: Any, **kwargs: Any
    ) -> bool:
        """Use up the code; a wrong verifier cannot be tried twice."""
        found = tokens.find(tokens.CODE, code, client)
        if found is None or not tokens.use(found):
            return False
        self._take_over(found, request)
        return True

    def get_code_challenge(self, code: str, request: Request) -> str | None:
        return str(tokens.facts_of(self.presented)["code_challenge"]) if self.presented else None

    def get_code_challenge_method(self, code: str, request: Request) -> str:
        return "S256"

    def confirm_redirect_uri(
        self, client_id: str, code: str, redirect_uri: str, *args: Any, **kwargs: Any
    ) -> bool:
        return (
            self.presented is not None
            and redirect_uri == tokens.facts_of(self.presented)["redirect_uri"]
        )

    def invalidate_authorization_code(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing: `validate_code` has used it up."""

    def validate_refresh_token(
        self, refresh_token: str, client: Any, request: Request, *args: Any, **kwargs: Any
    ) -> bool:
        found = tokens.find(tokens.REFRESH, refresh_token, client)
        if found is None:
            return False
        if not count(REFRESHES, tokens.facts_of(found)["family"]).granted:
            raise TemporarilyUnavailableError(REFRESHES.refusal, status_code=429)
        self._take_over(found, request)
        return True

    def get_original_scopes(
        self, refresh_token: str, request: Request, *args: Any, **kwargs: Any
    ) -> list[str]:
        assert self.presented is not None
        return tokens.scopes_of(self.presented)

    def validate_device_code(
        self, client_id: str, device_code: str, request: Request, *args: Any, **kwargs: Any
    ) -> str | None:
        status, found = devices.poll(device_code, request.client)
        if status == DeviceCodeGrant.DEVICE_CODE_AUTHORIZED:
            assert found is not None
            self._take_over(found, request)
        return status

    def _take_over(self, found: Token, request: Request) -> None:
        self.presented = found
        request.user, request.scopes = found.user, tokens.scopes_of(found)

    def save_bearer_token(
        self, token: dict[str, Any], request: Request, *args: Any, **kwargs: Any
    ) -> None:
        """Store the new tokens; raise InvalidGrantError if the grant is gone or the refresh token
        was used meanwhile.
        """
        assert self.presented is not None
        granted: list[str] = tokens.facts_of(self.presented)["resources"]
        wanted = get_validator_context().requested_resources or granted
        if not _is_within(wanted, granted):
            raise InvalidTargetError(request=request)
        if self.presented.type == tokens.REFRESH and not tokens.use(self.presented):
            raise InvalidGrantError(request=request)
        try:
            token["expires_in"] = tokens.issue(
                client=request.client,
                given_for=self.presented,
                scopes=request.scopes,
                resources=wanted,
                access=token["access_token"],
                refresh=token.get("refresh_token"),
            )
        except tokens.GrantGone:
            raise InvalidGrantError(request=request) from None

    # --- Revocation

    def revoke_token(
        self, token: str, token_type_hint: str, request: Request, *args: Any, **kwargs: Any
    ) -> None:
        """End a token of the program that asks; a refresh token ends its whole sign-in."""
        mine = Token.objects.filter(hash=digest_of(token), client=request.client)
        for found in mine.filter(type=tokens.REFRESH):
            grants.end_sign_in(found)
        mine.filter(type=tokens.ACCESS).delete()

    def is_origin_allowed(self, *args: Any, **kwargs: Any) -> bool:
        return False


def _is_within(wanted: list[str], granted: list[str]) -> bool:
    for resource in wanted:
        path = audience.path_of(resource)
        if path is None:
            return False
        if not any(f"{path}/".startswith(f"{audience.path_of(each)}/") for each in granted):
            return False
    return True
