"""Idempotency keys of calls that are no proposals: drafts, uploads, webhooks, withdrawals.

A call reserves its key first, and keeps its answer with the key. So a repeated call gets the same
answer, and a call whose answer was lost is never carried out twice in silence. A proposal's key is
kept with its action instead (`approvals.gate.propose`).
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from accounts.access.caller import Caller
from accounts.infra.credentials import CannotDecrypt
from accounts.infra.foreign_text import load_json
from accounts.infra.problems import Problem
from accounts.models import KeyedCall
from accounts.models.keyed_calls import KEPT

IDEMPOTENCY_KEY = r"[\x20-\x7e]{1,255}"
BATCH = 1000
_started: ContextVar[bool] = ContextVar("keyed_call_started", default=False)


def check_key(key: object) -> str | None:
    """Return the key; raise Problem 400 if it cannot be one."""
    if key is None:
        return None
    if not isinstance(key, str) or not re.fullmatch(IDEMPOTENCY_KEY, key):
        raise Problem(
            "invalid_input",
            "An idempotency key has 1 to 255 printable ASCII characters.",
            status=400,
        )
    return key


def mark_started(started: bool) -> None:
    """Say whether the call may have changed something outside of our database.

    If it may, and no clear answer comes, the key stays reserved.
    """
    _started.set(started)


def call_once(
    caller: Caller,
    *,
    tool: str,
    place: str,
    key: str,
    request: Mapping[str, Any],
    run: Callable[[], Mapping[str, Any]],
) -> tuple[Mapping[str, Any], bool]:
    """Run a call whose key is new, or return the answer that the key led to before.

    Returns the answer, and True if it is a repeated one. Raises `idempotency_mismatch` if the
    request was another one, and `conflict` while the first call runs or if its outcome is unknown.
    """
    digest = hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()
    names = {"user": caller.user, "caller_name": caller.name, "tool": tool}
    names |= {"place": place, "key": key}
    KeyedCall.objects.filter(**names, created_at__lt=timezone.now() - KEPT).delete()
    try:
        with transaction.atomic():
            row = KeyedCall.objects.create(**names, request_digest=digest)
    except IntegrityError:
        return _repeat(names, digest), True
    token = _started.set(False)
    try:
        answer = run()
    except Problem as problem:
        if not (_started.get() and problem.code == "transient"):
            row.delete()
        raise
    finally:
        _started.reset(token)
    row.answer = json.dumps(answer).encode()
    row.save(update_fields=["answer"])
    return answer, False


def _repeat(names: Mapping[str, Any], digest: str) -> dict[str, Any]:
    row = KeyedCall.objects.filter(**names).first()
    if row is not None and row.request_digest != digest:
        raise Problem(
            "idempotency_mismatch",
            "This key was used for another request. Use a new key for a new request.",
        )
    kept = _open(row) if row is not None else b""
    if not kept:
        raise Problem(
            "conflict",
            "A request with this key is running, or its outcome is unknown. Check whether it was "
            "done; if it was not, repeat it with a new key.",
        )
    answer: dict[str, Any] = load_json(kept)
    return answer


def _open(row: KeyedCall) -> bytes:
    """Return the answer; empty if no key opens it any more."""
    try:
        return bytes(row.answer)
    except CannotDecrypt:
        return b""


def key_in(headers: Mapping[str, str]) -> str | None:
    """Return the idempotency key without quotes.

    The draft standard has the key as a quoted string, but most clients send it bare; both name the
    same key.
    """
    key = headers.get("Idempotency-Key")
    if key is not None and len(key) >= 2 and key[0] == key[-1] == '"':
        return key[1:-1]
    return key


def forget_old() -> None:
    """Delete a batch of keys that are older than a day. The sweeper calls it."""
    old = KeyedCall.objects.filter(created_at__lt=timezone.now() - KEPT)
    KeyedCall.objects.filter(pk__in=list(old.values_list("pk", flat=True)[:BATCH])).delete()
