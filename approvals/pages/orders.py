"""Orders of a list: the fields that sort it, its keyset, and its cursors."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from accounts.models import User
from approvals.core.cursors import foreign_cursor, read_cursor, write_cursor
from approvals.models import QueueOrder


@dataclass(frozen=True, kw_only=True)
class Order:
    """An order; its last two `fields` are a time and the primary key."""

    name: str
    fields: tuple[str, ...]

    @property
    def across_mailboxes(self) -> tuple[str, ...]:
        """Return the fields by which a statement sorts rows of several mailboxes."""
        return ("mailbox__address", *self.fields) if self is BY_MAILBOX else self.fields

    def write_cursor(self, values: Sequence[Any]) -> str:
        """Return the cursor of a page that ends with these values of the fields."""
        *first, at, pk = values
        return write_cursor(at, ".".join([self.name, *map(_write_value, first), pk.hex]))

    def read_cursor(self, cursor: str) -> tuple[Any, ...]:
        """Return the values in a cursor.

        Raises `invalid_input` for a cursor that this order has not given.
        """
        at, key = read_cursor(cursor, str)
        name, *first = key.split(".")
        if name != self.name or len(first) != len(self.fields) - 1:
            raise foreign_cursor()
        try:
            *before, pk = (int(each) if len(each) == 1 else UUID(each) for each in first)
        except ValueError:
            raise foreign_cursor() from None
        return (*before, at, pk)

    def follow(self, values: Sequence[Any]) -> Q:
        """Return the condition for the rows after these values."""
        found, same = Q(), Q()
        for name, value in zip(self.fields, values, strict=True):
            field, further = name.removeprefix("-"), "lt" if name.startswith("-") else "gt"
            found |= same & Q(**{f"{field}__{further}": value})
            same &= Q(**{field: value})
        first = self.fields[0]
        bound = f"{first.removeprefix('-')}__{'lte' if first.startswith('-') else 'gte'}"
        # With this bound an index begins at the cursor, and not at the first row.
        return Q(**{bound: values[0]}) & found


def _write_value(value: int | UUID) -> str:
    return value.hex if isinstance(value, UUID) else str(int(value))


OLDEST = Order(name="oldest", fields=("created_at", "id"))
NEWEST = Order(name="newest", fields=("-created_at", "-id"))
BY_EXPIRY = Order(name="expiry", fields=("expires_at", "id"))
BY_RISK = Order(name="risk", fields=("-risk", "created_at", "id"))
BY_MAILBOX = Order(name="mailbox", fields=("mailbox_id", "created_at", "id"))
CHOICES = {order.name: order for order in (OLDEST, BY_EXPIRY, BY_RISK, BY_MAILBOX)}
LABELS = {
    OLDEST.name: _("oldest first"),
    BY_EXPIRY.name: _("expires first"),
    BY_RISK.name: _("highest risk first"),
    BY_MAILBOX.name: _("by mailbox"),
}


def order_of(person: User) -> Order:
    """Return the order in which this person works through the waiting actions."""
    chosen = QueueOrder.objects.filter(person=person).values_list("name", flat=True).first()
    return CHOICES.get(chosen or "", OLDEST)


def save_order(person: User, name: str) -> None:
    """Save the order of a person; the caller has checked the name."""
    QueueOrder.objects.update_or_create(person=person, defaults={"name": name})


def value_of(row: Any, order: Order) -> tuple[int | UUID | datetime, ...]:
    """Return the values of the fields of an order in a row."""
    return tuple(getattr(row, name.removeprefix("-")) for name in order.fields)
