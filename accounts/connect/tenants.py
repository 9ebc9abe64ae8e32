"""Whether any organisation in the world could connect a Microsoft 365 mailbox here, and a warning
if so.
"""

from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Warning, register

EVERY_TENANT = (
    "MICROSOFT_TENANT lets every organisation in, so nothing can be connected here. Ask your administrator to set "
    "MICROSOFT_TENANT to the id of yours, or to list the allowed ones in MICROSOFT_ALLOWED_TENANTS."
)


def lets_every_tenant_in() -> bool:
    """Whether the settings would let a person of any organisation connect a mailbox in the web."""
    several = settings.MICROSOFT_TENANT.lower() in ("common", "organizations")
    return several and not settings.MICROSOFT_ALLOWED_TENANTS


@register
def check_tenants(app_configs: Any, **_: Any) -> list[CheckMessage]:
    """Warn at the start: mailboxes that are connected already go on working."""
    if settings.MICROSOFT_CLIENT_ID and lets_every_tenant_in():
        return [Warning(EVERY_TENANT, id="mailhub.W001")]
    return []
