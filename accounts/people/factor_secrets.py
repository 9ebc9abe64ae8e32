"""Secrets of second factors, encrypted at rest and bound to their row.

The sign-in library encrypts through its adapter, which does not know the row. So each secret is
bound when its row is saved, and carries the name of its row when it is loaded. A record that moved
to another person does not decrypt. Records of earlier versions, which are bound to the table only,
still decrypt; `rotate_keys` binds them.
"""

import base64
from typing import Any

from allauth.mfa.models import Authenticator
from django.db.models.signals import post_init, pre_save
from django.dispatch import receiver

from accounts.infra import credentials
from accounts.infra.credentials import CannotDecrypt
from accounts.infra.fields import TEXT_MARK
from accounts.infra.keys import decrypt_content, encrypt_content

SECRETS = ("secret", "seed")  # of one-time codes and of recovery codes
TABLE = "mfa_authenticator"


class BoundRecord(str):
    """A stored record that knows the row it was read from."""

    row: str

    def __new__(cls, record: str, row: str) -> "BoundRecord":
        found = super().__new__(cls, record)
        found.row = row
        return found


def encrypt(secret: str) -> str:
    """Encrypt a secret until its row is saved."""
    return credentials.encrypt_text(secret, bound_to=TABLE)


def decrypt(record: str) -> str:
    """Decrypt a record of either form; raise CannotDecrypt."""
    if not record.startswith(TEXT_MARK):
        return credentials.decrypt_text(record, bound_to=TABLE)
    if not isinstance(record, BoundRecord):
        raise CannotDecrypt("the record was not read from a row")
    try:
        raw = base64.b64decode(record.removeprefix(TEXT_MARK))
    except ValueError:
        raise CannotDecrypt("the record is damaged") from None
    return decrypt_content(raw, bound_to=record.row).decode()


@receiver(post_init, sender=Authenticator)
def _name_row(instance: Authenticator, **_: Any) -> None:
    data = instance.__dict__.get("data")  # missing if the query deferred it
    if not isinstance(data, dict):
        return
    for name in SECRETS:
        if isinstance(data.get(name), str) and data[name].startswith(TEXT_MARK):
            data[name] = BoundRecord(data[name], _row_of(instance))


@receiver(pre_save, sender=Authenticator)
def _bind(instance: Authenticator, raw: bool = False, **_: Any) -> None:
    if raw:
        return
    for name in SECRETS:
        record = instance.data.get(name)
        if record and not record.startswith(TEXT_MARK):
            row = _row_of(instance)
            sealed = base64.b64encode(
                encrypt_content(decrypt(record).encode(), bound_to=row)
            ).decode()
            instance.data[name] = BoundRecord(TEXT_MARK + sealed, row)


def _row_of(instance: Authenticator) -> str:
    return f"{TABLE}:{instance.type}:{instance.user_id}"
