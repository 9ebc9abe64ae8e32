"""Encryption of the gate's content with the first key, in batches.

It may be interrupted and run again.
"""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from django.apps import apps
from django.db.models import BinaryField, Model, Q, QuerySet
from django.db.models.functions import Substr

from accounts.infra.credentials import CannotDecrypt
from accounts.infra.fields import Encrypted
from accounts.infra.keys import HEAD_BYTES, MAGIC, first_key_id
from approvals.core import at_rest
from approvals.core.signatures import sign_decision, verify_decision
from approvals.core.states import FINAL, Status
from approvals.models import Decision, PendingAction, Revision

BATCH = 500
ROWS = 20  # each row may hold a large file
PARTS = ("payload", "preview")
SAID = (
    "method", "verdict", "revision", "approval_round", "digest", "created_at", "membership", "account_generation",
)  # fmt: skip


def renew_signatures() -> list[str]:
    """Sign decisions and open orders with the first key; return the names of invalid ones.

    A row without a signature gets none, because nobody can prove any more that mailhub wrote it.
    """
    lost = []
    for decision in _batches(Decision.objects.exclude(seal="")):
        said = {"action": decision.action_id, "person": decision.person_id} | {
            name: getattr(decision, name) for name in SAID
        }
        if verify_decision(decision.seal, **said):
            Decision.objects.filter(pk=decision.pk).update(seal=sign_decision(**said))
        else:
            lost.append(f"decision {decision.pk}")
    for action in _batches(
        PendingAction.objects.filter(status=Status.APPROVED).exclude(order_seal="")
    ):
        if action.has_order():
            # If a worker claims the action meanwhile, it has no order any more.
            mine = PendingAction.objects.filter(
                pk=action.pk, status=Status.APPROVED, order_seal=action.order_seal
            )
            mine.update(order_seal=action.sign_order())
        else:
            lost.append(f"order of {action.pk}")
    return lost


def _batches(rows: QuerySet[Any]) -> Iterator[Any]:
    """Yield the rows signed with another key, without one long transaction or statement."""
    name = "seal" if rows.model is Decision else "order_seal"
    rows = rows.exclude(**{f"{name}__startswith": f"{first_key_id().hex()}:"}).order_by("pk")
    batch = list(rows[:BATCH])
    while batch:
        yield from batch
        batch = list(rows.filter(pk__gt=batch[-1].pk)[:BATCH])


def encrypt_content() -> list[str]:
    """Encrypt all content with the first key; return the names of rows that no key opens.

    A mail in clear that has not ended is named too and stays as it is: else a person could approve
    what somebody without a key has written. It covers every encrypted column. It reads only the
    beginning of each value, so a second run is quick.
    """
    lost = [f"revision {pk}" for pk in _each_revision() if not _encrypt_revision(pk)]
    for model in apps.get_models():
        for column in model._meta.concrete_fields:
            if isinstance(column, Encrypted):
                lost += _encrypt_column(model, column)
    return lost


def _encrypt_revision(key: int) -> bool:
    """Encrypt one revision; return False if no key opens it, or if it is in clear and its action has
    not ended. A purge meanwhile is not undone.
    """
    columns = ("action_id", "number", "payload", "preview", "sealed_payload", "sealed_preview")
    action_id, number, *parts = Revision.objects.values_list(*columns).get(pk=key)
    row = SimpleNamespace(
        action_id=action_id,
        number=number,
        payload=parts[0],
        preview=parts[1],
        sealed_payload=None,
        sealed_preview=None,
    )
    there = Revision.objects.filter(pk=key)
    try:
        if parts[2] is None and parts[3] is None:
            if not PendingAction.objects.filter(pk=action_id, status__in=FINAL).exists():
                return False
            at_rest.encrypt_revision(row)
            there = there.exclude(payload={}, preview={})
        else:
            for part, record in (("payload", parts[2]), ("preview", parts[3])):
                if record is not None:
                    setattr(
                        row, f"sealed_{part}", at_rest.reencrypt(part, record, action_id, number)
                    )
            there = there.exclude(sealed_payload=None, sealed_preview=None)
    except CannotDecrypt:
        return False
    there.update(**{name: getattr(row, name) for name in columns[2:]})
    return True


def _each_revision() -> Iterator[int]:
    """Yield the ids of revisions that are not fully encrypted with the first key."""
    head = MAGIC + first_key_id()
    begins = {
        part: Substr(f"sealed_{part}", 1, HEAD_BYTES, output_field=BinaryField()) for part in PARTS
    }
    done = Q(payload={}, preview={}, sealed_payload=None, sealed_preview=None)
    done |= Q(payload_begins=head, preview_begins=head)
    rows = Revision.objects.annotate(**{f"{part}_begins": begin for part, begin in begins.items()})
    rows = rows.exclude(pk__in=rows.filter(done).values("pk")).order_by("pk")
    last = 0
    while batch := list(rows.filter(pk__gt=last).values_list("pk", flat=True)[:BATCH]):
        yield from batch
        last = batch[-1]


def _encrypt_column(model: type[Model], column: Encrypted) -> list[str]:
    """Encrypt a column, and return the names of rows that no key opens.

    A row that another process empties or writes meanwhile is left as it is.
    """
    lost, last = [], None
    rows: QuerySet[Any] = model._default_manager.order_by("pk").only(
        "pk", column.name, *column.bound_by
    )
    while batch := list((rows if last is None else rows.filter(pk__gt=last))[:ROWS]):
        last = batch[-1].pk
        for row in batch:
            stored = row.__dict__[column.attname]
            if not stored or column.is_on_first_key(stored):
                continue
            if column.is_readable(row):
                plain = getattr(row, column.attname)
                mine = model._default_manager.filter(pk=row.pk, **{column.name: stored})
                mine.update(**{column.name: column.encrypt_value(plain, row)})
            else:
                lost.append(f"{model._meta.label_lower} {row.pk}")
    return lost
