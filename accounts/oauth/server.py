"""The OAuth server: codes with PKCE by SHA-256, refresh tokens and device codes, and nothing else."""

from typing import Any, ClassVar

from oauthlib.oauth2.rfc6749.endpoints import (
    AuthorizationEndpoint,
    RevocationEndpoint,
    TokenEndpoint,
)
from oauthlib.oauth2.rfc6749.grant_types import AuthorizationCodeGrant, RefreshTokenGrant
from oauthlib.oauth2.rfc6749.grant_types.authorization_code import code_challenge_method_s256
from oauthlib.oauth2.rfc6749.tokens import BearerToken
from oauthlib.oauth2.rfc8628.grant_types import DeviceCodeGrant

from accounts.oauth import tokens
from accounts.oauth.programs import DEVICE_GRANT
from accounts.oauth.validator import Validator


class CodeGrant(AuthorizationCodeGrant):  # type: ignore[misc]  # the library has no types
    """A challenge that is the verifier itself ("plain") protects nothing, so it is refused."""

    _code_challenge_methods: ClassVar[dict[str, Any]] = {"S256": code_challenge_method_s256}


class Server(AuthorizationEndpoint, TokenEndpoint, RevocationEndpoint):  # type: ignore[misc]
    """The endpoints for one request."""

    def __init__(self) -> None:
        validator = Validator()
        bearer = BearerToken(
            validator,
            tokens.new_access_token,
            int(tokens.ACCESS_LIFETIME.total_seconds()),
            tokens.new_refresh_token,
        )
        codes = CodeGrant(validator)
        AuthorizationEndpoint.__init__(self, "code", bearer, {"code": codes})
        TokenEndpoint.__init__(
            self,
            default_grant_type="authorization_code",
            default_token_type=bearer,
            grant_types={
                "authorization_code": codes,
                "refresh_token": RefreshTokenGrant(validator),
                DEVICE_GRANT: DeviceCodeGrant(validator),
            },
        )
        RevocationEndpoint.__init__(self, validator)
