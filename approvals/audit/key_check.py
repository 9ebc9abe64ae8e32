"""The check that this process has the keys that the database was written with.

Without it a wrong key looks like health: processes start, no content opens, and each approval seems
to be forged.
"""

from django.core.management.base import CommandError
from django.db import DatabaseError

from accounts.infra.credentials import KEY_ID_BYTES, configured_keys, key_id
from accounts.infra.keys import HEAD_BYTES, sign_values, verify_values
from approvals.audit.chain import hash_of, keyed_hash
from approvals.models import AuditEvent, KeyCheck, Revision

PURPOSE = "mailhub key check"
ENCRYPTION, SECRET = "encryption", "secret"
SETTINGS = {ENCRYPTION: "MAILHUB_ENCRYPTION_KEYS", SECRET: "SECRET_KEY"}


class WrongKeys(CommandError):
    """Raised if the database was written with other keys; the text names the settings."""


def find_wrong() -> list[str]:
    """Return the names of the settings that do not fit this database. It writes nothing."""
    stored = dict(KeyCheck.objects.values_list("name", "value"))
    fits = {
        ENCRYPTION: verify_values(stored[ENCRYPTION], purpose=PURPOSE)
        if ENCRYPTION in stored
        else _opens_newest_content(),
        SECRET: stored[SECRET] == keyed_hash(PURPOSE) if SECRET in stored else _fits_newest_event(),
    }
    return [SETTINGS[name] for name, right in fits.items() if not right]


def require() -> None:
    """Raise WrongKeys if a key does not fit; note the keys of a database that knows none yet.

    A database that is away or not migrated says nothing: `/statusz` names wrong keys later.
    """
    try:
        wrong = find_wrong()
        if not wrong:
            _note(*SETTINGS)
    except DatabaseError:
        return
    if wrong:
        raise WrongKeys(
            f"This database was written with another {' and '.join(wrong)}. Nothing starts, because no content would"
            " open. Bring the keys back. If they are lost for ever, run `manage.py rotate_keys --lost`."
        )


def renew(*names: str) -> None:
    """Note the present keys, the first one for encryption."""
    KeyCheck.objects.filter(name__in=names).delete()
    _note(*names)


def _note(*names: str) -> None:
    makers = {
        ENCRYPTION: lambda: sign_values(purpose=PURPOSE),
        SECRET: lambda: keyed_hash(PURPOSE),
    }
    rows = [KeyCheck(name=name, value=makers[name]()) for name in names]
    KeyCheck.objects.bulk_create(rows, ignore_conflicts=True)


def _opens_newest_content() -> bool:
    """Return False if a database from before this check has content of another key."""
    sealed = Revision.objects.exclude(sealed_payload=None).order_by("-pk")
    newest = sealed.values_list("sealed_payload", flat=True).first()
    if newest is None:
        return True
    made_by = bytes(newest)[HEAD_BYTES - KEY_ID_BYTES : HEAD_BYTES]
    return made_by in map(key_id, configured_keys())


def _fits_newest_event() -> bool:
    newest = AuditEvent.objects.order_by("-pk").first()
    return newest is None or newest.hash == hash_of(newest)
