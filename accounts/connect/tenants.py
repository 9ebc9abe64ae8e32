"""The system check that warns if any Microsoft tenant in the world could connect a mailbox."""

from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Warning, register

from accounts.infra.texts import translatable

EVERY_TENANT = translatable(
    "MICROSOFT_TENANT lets every organisation in, so nothing can be connected here. Ask your administrator to set "
    "MICROSOFT_TENANT to the id of yours, or to list the allowed ones in MICROSOFT_ALLOWED_TENANTS."
)


def lets_every_tenant_in() -> bool:
    """Return True if people of any organisation could connect a mailbox on the web."""
    several = settings.MICROSOFT_TENANT.lower() in ("common", "organizations")
    return several and not settings.MICROSOFT_ALLOWED_TENANTS


@register
def check_tenants(app_configs: Any, **_: Any) -> list[CheckMessage]:
    """Return a warning at the start; mailboxes that are already connected still work."""
    if settings.MICROSOFT_CLIENT_ID and lets_every_tenant_in():
        return [Warning(EVERY_TENANT, id="mailhub.W001")]
    return []
