"""Columns whose content is encrypted at rest; `bound_by` binds each value to its row.

A value is decrypted on access. Values that were stored before there was encryption are returned
unchanged. In the schema they are the plain columns, so a migration sees no difference.
"""

import base64
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import structlog
from django.db import models
from django.db.models.query_utils import DeferredAttribute

from accounts.infra.credentials import CannotDecrypt
from accounts.infra.keys import (
    HEAD_BYTES,
    decrypt_content,
    encrypt_content,
    is_encrypted,
    is_on_first_key,
)

log = structlog.get_logger(__name__)

TEXT_MARK = "mhseal1:"
UNREADABLE = "(cannot be decrypted)"


class _Opened(DeferredAttribute):
    def __get__(self, instance: Any, cls: Any = None) -> Any:
        value = super().__get__(instance, cls)
        return value if instance is None else self.field.decrypt_value(value, instance)  # type: ignore[attr-defined]

    def __set__(self, instance: Any, value: Any) -> None:
        # Without a __set__, Python would read the instance's own value and skip __get__.
        instance.__dict__[self.field.attname] = value


class Encrypted(models.Field):  # type: ignore[type-arg]
    """Common base of the encrypted fields.

    `bound_by` names columns that are known before the row is inserted.
    """

    descriptor_class = _Opened

    def __init__(self, *args: Any, bound_by: Sequence[str] = (), **kwargs: Any) -> None:
        self.bound_by = tuple(bound_by)
        super().__init__(*args, **kwargs)

    def deconstruct(self) -> Any:
        name, _, args, kwargs = super().deconstruct()
        return name, f"django.db.models.{self.plain}", args, kwargs

    plain = ""

    def row_name(self, row: Any) -> str:
        """Return the name of the row that a value belongs to: table, column and key."""
        key = ":".join(_format_key(getattr(row, name)) for name in self.bound_by)
        return f"{self.model._meta.db_table}:{self.column}:{key}"

    def pre_save(self, model_instance: Any, add: bool) -> Any:
        value = model_instance.__dict__[self.attname]
        if value and self.is_encrypted(value) and self.is_readable(model_instance):
            return value  # the row is saved unchanged
        return self.encrypt_value(value, model_instance)

    def encrypt_value(self, value: Any, row: Any) -> Any:
        """Encrypt a value for this column of this row; an empty value stays empty."""
        raise NotImplementedError

    def decrypt_value(self, value: Any, row: Any) -> Any:
        """Decrypt a stored value of this column of this row."""
        raise NotImplementedError

    def is_encrypted(self, stored: Any) -> bool:
        """Return True if this stored value looks encrypted."""
        raise NotImplementedError

    def is_on_first_key(self, stored: Any) -> bool:
        """Return True if the first key has encrypted this stored value."""
        raise NotImplementedError

    def is_readable(self, row: Any) -> bool:
        """Return True if a configured key decrypts the stored value of this row."""
        raise NotImplementedError


class EncryptedBinaryField(Encrypted, models.BinaryField):  # type: ignore[type-arg]
    """Bytes that raise CannotDecrypt on access if the record is of another row or its key is not
    configured.

    With `strict` they also raise it for bytes that are not encrypted, because mailhub has never
    stored such bytes in this column.
    """

    plain = "BinaryField"

    def __init__(self, *args: Any, strict: bool = False, **kwargs: Any) -> None:
        self.strict = strict
        super().__init__(*args, **kwargs)

    def encrypt_value(self, value: Any, row: Any) -> Any:
        if value is None:
            return value
        return encrypt_content(bytes(value), bound_to=self.row_name(row))

    def decrypt_value(self, value: Any, row: Any) -> Any:
        if value is None or not (self.strict or is_encrypted(bytes(value[:16]))):
            return value
        return decrypt_content(bytes(value), bound_to=self.row_name(row))

    def is_encrypted(self, stored: Any) -> bool:
        return is_encrypted(bytes(stored[:16]))

    def is_on_first_key(self, stored: Any) -> bool:
        return is_on_first_key(bytes(stored[:HEAD_BYTES]))

    def is_readable(self, row: Any) -> bool:
        try:
            self.decrypt_value(row.__dict__[self.attname], row)
        except CannotDecrypt:
            return False
        return True


class EncryptedTextField(Encrypted, models.TextField):  # type: ignore[type-arg]
    """Text that a page shows; a text that cannot be decrypted reads as UNREADABLE."""

    plain = "TextField"

    def encrypt_value(self, value: Any, row: Any) -> Any:
        if not value:
            return value
        return (
            TEXT_MARK
            + base64.b64encode(
                encrypt_content(value.encode(), bound_to=self.row_name(row))
            ).decode()
        )

    def decrypt_value(self, value: Any, row: Any) -> Any:
        # While SQL is compiled, a Slot is here.
        if not isinstance(value, str) or not value.startswith(TEXT_MARK):
            return value
        try:
            record = base64.b64decode(value.removeprefix(TEXT_MARK))
            return decrypt_content(record, bound_to=self.row_name(row)).decode()
        except (CannotDecrypt, ValueError):
            log.warning("content_not_decrypted", code=self.model._meta.db_table)
            return UNREADABLE

    def is_encrypted(self, stored: Any) -> bool:
        return str(stored).startswith(TEXT_MARK)

    def is_on_first_key(self, stored: Any) -> bool:
        begins = str(stored)[len(TEXT_MARK) :][:32] if str(stored).startswith(TEXT_MARK) else ""
        try:
            return is_on_first_key(base64.b64decode(begins)[:HEAD_BYTES])
        except ValueError:
            return False

    def is_readable(self, row: Any) -> bool:
        return bool(self.decrypt_value(row.__dict__[self.attname], row) != UNREADABLE)


def _format_key(value: Any) -> str:
    return value.astimezone(UTC).isoformat() if isinstance(value, datetime) else str(value)
