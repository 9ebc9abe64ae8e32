"""The documents by which programs find the OAuth server (RFC 8414) and what it protects (RFC 9728)."""

from typing import Any

from django.conf import settings
from django.urls import reverse

from accounts.access.audience import issuer
from accounts.models import USUAL_SCOPES
from accounts.oauth.programs import GRANTS


def describe_server() -> dict[str, Any]:
    """Return the metadata of the authorization server."""
    found: dict[str, Any] = {
        "issuer": issuer(),
        "authorization_endpoint": issuer() + reverse("oauth_authorize"),
        "token_endpoint": issuer() + reverse("oauth_token"),
        "revocation_endpoint": issuer() + reverse("oauth_revoke"),
        "device_authorization_endpoint": issuer() + reverse("oauth_device_code"),
        "scopes_supported": list(USUAL_SCOPES),
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": list(GRANTS),
        "token_endpoint_auth_methods_supported": ["none"],
        "revocation_endpoint_auth_methods_supported": ["none"],
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": True,
        "service_documentation": issuer() + reverse("api_docs"),
        "ui_locales_supported": [code for code, _ in settings.LANGUAGES],
    }
    if settings.MAILHUB_OAUTH_REGISTRATION != "off":
        found["registration_endpoint"] = issuer() + reverse("oauth_register")
        found["client_id_metadata_document_supported"] = True
    return found


def describe_resource(path: str) -> dict[str, Any]:
    """Return the metadata of one surface, or of the whole server for an empty path."""
    return {
        "resource": issuer() + path,
        "resource_name": "mailhub",
        "authorization_servers": [issuer()],
        "scopes_supported": list(USUAL_SCOPES),
        "bearer_methods_supported": ["header"],
        "resource_documentation": issuer() + reverse("api_docs"),
    }
