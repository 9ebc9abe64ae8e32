"""A program that asks a person for access by OAuth, and the person who answers on the pages."""

import base64
import hashlib
import secrets
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from django.test import Client

from accounts.models import Mailbox, User
from tests.conftest import Api
from tests.support.people.browser import browser

BACK = "http://127.0.0.1:5000/back"
ALL = "mail:read mail:draft mail:propose"


@dataclass
class Program:
    """A program over HTTP, without a browser of its own."""

    client_id: str = ""
    back: str = BACK
    http: Client = field(default_factory=Client)
    verifier: str = field(default_factory=lambda: secrets.token_urlsafe(48))

    @classmethod
    def registered(cls, *, name: str = "Helper", back: str = BACK, **more: Any) -> "Program":
        program = cls(back=back)
        answer = program.register(client_name=name, redirect_uris=[back], **more)
        assert answer.status_code == 201, answer.content
        program.client_id = answer.json()["client_id"]
        return program

    def register(self, **metadata: Any) -> Any:
        return self.http.post("/oauth/register", metadata, content_type="application/json")

    @property
    def challenge(self) -> str:
        digest = hashlib.sha256(self.verifier.encode()).digest()
        return base64.urlsafe_b64encode(digest).decode().rstrip("=")

    def address(self, **changes: Any) -> str:
        """Return the address that the program opens in the person's browser."""
        asked = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": self.back,
            "code_challenge": self.challenge,
            "code_challenge_method": "S256",
            "scope": ALL,
            "state": "its-state",
            **changes,
        }
        given = {name: value for name, value in asked.items() if value is not None}
        return f"/oauth/authorize?{urlencode(given, doseq=True)}"

    def take(self, leads: Any) -> str:
        """Return the code of the answer that the browser brings back."""
        assert leads.status_code == 302, leads.content
        assert leads["Location"].startswith(self.back)
        answer = parse_qs(urlsplit(leads["Location"]).query)
        assert answer["state"] == ["its-state"]
        return str(answer["code"][0])

    def exchange(self, code: str, **changes: Any) -> Any:
        form = {"code": code, "redirect_uri": self.back, "code_verifier": self.verifier}
        return self.token(grant_type="authorization_code", **{**form, **changes})

    def refresh(self, refresh_token: str, **changes: Any) -> Any:
        return self.token(grant_type="refresh_token", refresh_token=refresh_token, **changes)

    def token(self, **form: Any) -> Any:
        given = {"client_id": self.client_id, **form}
        return self.http.post(
            "/oauth/token",
            urlencode({name: value for name, value in given.items() if value is not None}),
            content_type="application/x-www-form-urlencoded",
        )

    def connect(self, person: User, *mailboxes: Mailbox, scopes: str = ALL, **asked: Any) -> Any:
        """Let a person allow these scopes in these mailboxes; return the tokens."""
        leads = allow(person, self.address(**asked), *mailboxes, scopes=scopes)
        answer = self.exchange(self.take(leads))
        assert answer.status_code == 200, answer.content
        return answer.json()

    def api(self, person: User, *mailboxes: Mailbox, **more: Any) -> Api:
        return Api(secret=self.connect(person, *mailboxes, **more)["access_token"])


def allow(
    person: User,
    address: str,
    *mailboxes: Mailbox,
    scopes: str = ALL,
    window: Client | None = None,
    **fields: Any,
) -> Any:
    """Post the consent page as its form does, and return the answer."""
    form = {
        "scopes": scopes.split(),
        "mailboxes": [str(mailbox.pk) for mailbox in mailboxes],
        "days": "90",
        "answer": "allow",
        **fields,
    }
    return (window or browser(person)).post(address, form)
