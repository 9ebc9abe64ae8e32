"""Removal of codes and tokens that have expired, and of programs that nobody connected."""

from datetime import timedelta

from allauth.idp.oidc.models import Client, Token
from django.utils import timezone

BATCH = 1000
UNUSED_PROGRAM = timedelta(days=1)


def forget_old() -> None:
    """Delete a batch of each. The sweeper calls it."""
    now = timezone.now()
    expired = Token.objects.filter(expires_at__lte=now).values_list("pk", flat=True)
    Token.objects.filter(pk__in=list(expired[:BATCH])).delete()
    unused = Client.objects.filter(
        data__isnull=False, created_at__lt=now - UNUSED_PROGRAM, grants=None, token=None
    ).values_list("pk", flat=True)
    Client.objects.filter(pk__in=list(unused[:BATCH])).delete()
