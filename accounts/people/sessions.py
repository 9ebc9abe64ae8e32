"""Sessions with an idle limit and an absolute limit; only the browser knows a session's key.

The tables hold `stored_key(key)`, a hash, instead of the key, so a copy of the database opens no
session. The hash is longer than a key, so the two cannot be confused. `accounts.people.browsers`
and the sign-in library name a session by its hash. The middleware accepts only a key from a cookie.

The content is encrypted and bound to that hash, because it can hold a sign-in code or a new TOTP key.
"""

import base64
import hashlib
import re
import time
from datetime import datetime, timedelta
from typing import Any, cast

from django.conf import settings
from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.backends import db
from django.contrib.sessions.base_session import AbstractBaseSession
from django.contrib.sessions.middleware import SessionMiddleware as DjangosMiddleware
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from accounts.infra.credentials import CannotDecrypt
from accounts.infra.keys import decrypt_content, encrypt_content
from accounts.people.devices import write_cookie
from accounts.people.step_up import BEGAN

RENEW_EVERY = timedelta(minutes=10)
KEY = re.compile(r"[a-z0-9]{32}")
STORED = re.compile(r"[0-9a-f]{40}")


def stored_key(key: str) -> str:
    """Return the name of a session in the tables: 160 bits of the SHA-256 of its key; a stored key
    stays as it is.
    """
    return key if STORED.fullmatch(key) else hashlib.sha256(key.encode()).hexdigest()[:40]


class SessionStore(db.SessionStore):
    """Django's sessions in the database, encrypted, and found by the hash of their key."""

    expires_at: datetime | None = None

    def encode(self, session_dict: dict[str, Any]) -> str:
        plain = self.serializer().dumps(session_dict)
        return base64.b64encode(encrypt_content(plain, bound_to=self._row())).decode()

    def decode(self, session_data: bytes | str) -> dict[str, Any]:
        """Return the content; empty if no configured key decrypts it, so the person signs in again."""
        try:
            plain = decrypt_content(base64.b64decode(session_data), bound_to=self._row())
        except (CannotDecrypt, ValueError):  # ValueError: it is not base64
            return {}
        return cast(dict[str, Any], self.serializer().loads(plain))

    def _row(self) -> str:
        return f"django_session:session_data:{self._name()}"

    def _get_session_from_db(self) -> AbstractBaseSession | None:
        rows = self.model.objects.filter(session_key=self._name(), expire_date__gt=timezone.now())
        return self._accept_row(rows.first())

    async def _aget_session_from_db(self) -> AbstractBaseSession | None:
        rows = self.model.objects.filter(session_key=self._name(), expire_date__gt=timezone.now())
        return self._accept_row(await rows.afirst())

    def _accept_row(self, row: AbstractBaseSession | None) -> AbstractBaseSession | None:
        if row is None:
            self._session_key = None
        else:
            self.expires_at = row.expire_date
        return row

    def _name(self) -> str:
        return stored_key(self.session_key or "")

    def exists(self, session_key: str) -> bool:
        return super().exists(stored_key(session_key))

    async def aexists(self, session_key: str) -> bool:
        return await super().aexists(stored_key(session_key))

    def delete(self, session_key: str | None = None) -> None:
        key = session_key or self.session_key
        if key is not None:
            super().delete(stored_key(key))

    async def adelete(self, session_key: str | None = None) -> None:
        key = session_key or self.session_key
        if key is not None:
            await super().adelete(stored_key(key))

    def create_model_instance(self, data: dict[str, Any]) -> AbstractBaseSession:
        return self._set_key(super().create_model_instance(data), data)

    async def acreate_model_instance(self, data: dict[str, Any]) -> AbstractBaseSession:
        return self._set_key(await super().acreate_model_instance(data), data)

    def _set_key(self, row: AbstractBaseSession, data: dict[str, Any]) -> AbstractBaseSession:
        row.session_key = stored_key(row.session_key)
        row.expire_date = self.expires_at = end_of(data)
        return row

    def renew(self) -> None:
        """Restart the idle limit because a person is here; write at most once in ten minutes."""
        data = cast(dict[str, Any], self._get_session())  # type: ignore[attr-defined]
        later = end_of(data)
        if self.expires_at is not None and later - self.expires_at >= RENEW_EVERY:
            self.model.objects.filter(
                session_key=self._name(), expire_date__gt=timezone.now()
            ).update(expire_date=later)


def end_of(data: dict[str, Any]) -> datetime:
    """Return when a session with this content ends if it is not used again."""
    now = time.time()
    idle = now + settings.MAILHUB_SESSION_IDLE_HOURS * 3600
    absolute = data.get(BEGAN, now) + settings.SESSION_COOKIE_AGE
    return datetime.fromtimestamp(min(idle, absolute), tz=timezone.get_default_timezone())


def forget_ended() -> None:
    """Delete expired sessions."""
    SessionStore.clear_expired()


class SessionMiddleware(DjangosMiddleware):
    """Django's middleware, but a cookie must hold a key: a hash from the database opens nothing."""

    def process_request(self, request: HttpRequest) -> None:
        key = request.COOKIES.get(settings.SESSION_COOKIE_NAME, "")
        request.session = self.SessionStore(key if KEY.fullmatch(key) else None)

    def process_response(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        session = request.session
        if _by_a_person(request) and session.accessed and SESSION_KEY in session:
            cast(SessionStore, session).renew()
        write_cookie(request, response)
        return super().process_response(request, response)


def _by_a_person(request: HttpRequest) -> bool:
    """Return True if a person did this: pressed a link or a button, or typed the address.

    An open page requests other addresses, or itself again, without anybody there. A browser that
    does not say who navigates still posts its forms as a request for a page, and a script does not.
    """
    if request.headers.get("Sec-Fetch-User") == "?1":
        return True
    return request.method == "POST" and "text/html" in request.headers.get("Accept", "")
