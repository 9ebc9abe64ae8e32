"""A passkey of a person without a browser: it answers the challenges of mailhub's pages."""

import hashlib
import json
import os
from datetime import timedelta
from typing import Any

from allauth.account.utils import user_pk_to_url_str
from allauth.mfa.models import Authenticator
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from django.test import Client
from django.utils import timezone
from fido2.cose import ES256
from fido2.utils import websafe_encode
from fido2.webauthn import AttestationObject, AttestedCredentialData, AuthenticatorData

from accounts.models import User

ORIGIN, HOST = "http://testserver", "testserver"
PRESENT = AuthenticatorData.FLAG.UP | AuthenticatorData.FLAG.UV


class Passkey:
    """One credential of one person, registered an hour ago."""

    def __init__(self, person: User) -> None:
        self._id = os.urandom(16)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.row = Authenticator.objects.create(
            user=person,
            type=Authenticator.Type.WEBAUTHN,
            data={"name": "Phone", "credential": json.loads(self.register(""))},
        )
        an_hour_ago = timezone.now() - timedelta(hours=1)
        Authenticator.objects.filter(pk=self.row.pk).update(created_at=an_hour_ago)

    def register(self, challenge: str) -> str:
        """Return the answer of a new passkey, as a form holds it."""
        public = ES256.from_cryptography_key(self._key.public_key())  # type: ignore[no-untyped-call]
        known = AttestedCredentialData.create(bytes(16), self._id, public)
        attested = AttestationObject.create(
            "none", AuthenticatorData(self._data(PRESENT | AuthenticatorData.FLAG.AT, known)), {}
        )
        made = {
            "clientDataJSON": _client_data("webauthn.create", challenge),
            "attestationObject": attested,
        }
        return json.dumps(self._as_json(made))

    def answer(self, window: Client) -> str:
        """Ask the server for a challenge in this window, and return the answer as a form holds it."""
        return self.sign(window.get("/sign-in/challenge/").json()["publicKey"]["challenge"])

    def sign(self, challenge: str, flags: Any = PRESENT) -> str:
        client_data = _client_data("webauthn.get", challenge)
        data = self._data(flags)
        signed = data + hashlib.sha256(client_data).digest()
        made = {
            "clientDataJSON": client_data,
            "authenticatorData": data,
            "signature": self._key.sign(signed, ec.ECDSA(hashes.SHA256())),
            "userHandle": user_pk_to_url_str(self.row.user).encode(),
        }
        return json.dumps(self._as_json(made))

    def _data(self, flags: Any, known: AttestedCredentialData | None = None) -> bytes:
        host = hashlib.sha256(HOST.encode()).digest()
        return bytes(AuthenticatorData.create(host, flags, 0, known or b""))

    def _as_json(self, made: dict[str, bytes]) -> dict[str, Any]:
        name = websafe_encode(self._id)
        response = {key: websafe_encode(value) for key, value in made.items()}
        return {
            "id": name,
            "rawId": name,
            "type": "public-key",
            "response": response,
            "clientExtensionResults": {},
        }


def _client_data(sort: str, challenge: str) -> bytes:
    return json.dumps({"type": sort, "challenge": challenge, "origin": ORIGIN}).encode()
