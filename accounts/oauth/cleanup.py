"""Removal of expired codes and tokens, sign-ins without any, and programs nobody connected."""

from datetime import timedelta

from allauth.idp.oidc.models import Client, Token
from django.db.models import Exists, OuterRef, UUIDField
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast, Now
from django.utils import timezone

from accounts.models import ApiToken

BATCH = 1000
UNUSED_PROGRAM = timedelta(days=1)
UNUSED_PROGRAMS = 10_000


def forget_old() -> None:
    """Delete a batch of each. The sweeper calls it."""
    now = timezone.now()
    expired = Token.objects.filter(expires_at__lte=now).values_list("pk", flat=True)
    Token.objects.filter(pk__in=list(expired[:BATCH])).delete()
    held = Token.objects.annotate(grant=Cast(KeyTextTransform("family", "data"), UUIDField()))
    held = held.filter(client=OuterRef("client"), grant=OuterRef("pk"))
    grants = ApiToken.objects.filter(~Exists(held), client__isnull=False, revoked_at=None)
    ApiToken.objects.filter(pk__in=list(grants.values_list("pk", flat=True)[:BATCH])).update(
        revoked_at=Now()
    )
    unused = Client.objects.filter(data__isnull=False, grants=None, token=None)
    old = unused.filter(created_at__lt=now - UNUSED_PROGRAM)
    # Strangers in many networks fill the table no further, and keep no new program out.
    surplus = unused.order_by("-created_at")[UNUSED_PROGRAMS:]
    for found in (old, surplus):
        Client.objects.filter(pk__in=list(found.values_list("pk", flat=True)[:BATCH])).delete()
