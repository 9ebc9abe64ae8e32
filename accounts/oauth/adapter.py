"""The adapter through which the library's OAuth server asks mailhub."""

from typing import Any

from allauth.idp.oidc.adapter import DefaultOIDCAdapter
from django.core.exceptions import ValidationError

from accounts.access import audience
from accounts.oauth import programs


class Adapter(DefaultOIDCAdapter):
    """The issuer is the public address; resources are this server's, programs those of settings."""

    def get_issuer(self) -> str:
        return audience.issuer()

    def validate_resource_uris(self, *, uris: list[str], **kwargs: Any) -> None:
        if any(audience.path_of(uri) is None for uri in uris):
            raise ValidationError("The resource is not on this server.")

    def is_cimd_url_allowed(self, url: str) -> bool:
        return programs.is_document_allowed(url)
