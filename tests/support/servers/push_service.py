"""A push service on loopback that is as strict as RFC 8030, 8188, 8291 and 8292, and the browser
behind it, which decrypts.
"""

import base64
import json
import re
import time
from dataclasses import dataclass, field
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

LARGEST = 4096
DAY = 86_400
URGENCIES = ("very-low", "low", "normal", "high")


@dataclass
class PushService:
    """One subscription of one browser, and what arrived for it.

    `answers` are the statuses of the next pushes; 201 if it is empty.
    """

    server: HTTPServer
    received: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)
    server_key: str = ""

    def __post_init__(self) -> None:
        self._private = ec.generate_private_key(ec.SECP256R1())
        self._auth = b"sixteen bytes of"
        self.server.expect_request("/push/one").respond_with_handler(self._take)

    @property
    def subscription(self) -> dict[str, str]:
        """Return what a browser hands out, by the names of mailhub's form."""
        return {
            "endpoint": self.server.url_for("/push/one"),
            "p256dh": encode(_point(self._private.public_key())),
            "auth": encode(self._auth),
            "key": self.server_key,
        }

    def _take(self, request: Request) -> Response:
        try:
            self._check(request)
            self.received.append(json.loads(self._decrypt(request.get_data())))
        except AssertionError as error:
            return Response(str(error), status=400)
        self.headers.append(dict(request.headers))
        status = self.answers.pop(0) if self.answers else 201
        return Response(status=status, headers={"Location": "/message/1"})

    def _check(self, request: Request) -> None:
        headers = request.headers
        assert request.method == "POST", "only POST"
        assert re.fullmatch(r"\d{1,9}", headers.get("TTL", "")), "TTL is missing"
        assert headers.get("Content-Encoding") == "aes128gcm", "no aes128gcm"
        assert re.fullmatch(r"[A-Za-z0-9_-]{1,32}", headers.get("Topic", "x")), "a wrong topic"
        assert headers.get("Urgency", "normal") in URGENCIES, "a wrong urgency"
        assert len(request.get_data()) <= LARGEST, "too large"
        said = re.fullmatch(r"vapid t=([^,]+),\s*k=(.+)", headers.get("Authorization", ""))
        assert said, "no VAPID"
        token, key = said[1], said[2]
        assert key == self.server_key, "signed by a key that the subscription does not know"
        claims = _verify(token, key)
        host = request.host_url.rstrip("/")
        assert claims["aud"] == host, f"not for {host}"
        assert time.time() < claims["exp"] <= time.time() + DAY, "a wrong end"
        assert re.match(r"mailto:.+@.+|https://.+", claims["sub"]), "nobody to write to"

    def _decrypt(self, body: bytes) -> bytes:
        salt, size, length = body[:16], int.from_bytes(body[16:20]), body[20]
        sender, record = body[21 : 21 + length], body[21 + length :]
        assert length == 65, "no key of the sender"
        assert len(record) <= size, "several records"
        other = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), sender)
        shared = self._private.exchange(ec.ECDH(), other)
        info = b"WebPush: info\0" + _point(self._private.public_key()) + sender
        keyed = _derive(shared, self._auth, info, 32)
        key = _derive(keyed, salt, b"Content-Encoding: aes128gcm\0", 16)
        nonce = _derive(keyed, salt, b"Content-Encoding: nonce\0", 12)
        plain = AESGCM(key).decrypt(nonce, record, None).rstrip(b"\0")
        assert plain.endswith(b"\x02"), "no end of the last record"
        return plain[:-1]


def encode(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _point(key: ec.EllipticCurvePublicKey) -> bytes:
    return key.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


def _derive(secret: bytes, salt: bytes, info: bytes, length: int) -> bytes:
    return HKDF(algorithm=SHA256(), length=length, salt=salt, info=info).derive(secret)


def _verify(token: str, key: str) -> dict[str, Any]:
    """Return the claims of an ES256 token; raises InvalidSignature."""
    head, claims, signature = token.split(".")
    assert json.loads(_decode(head))["alg"] == "ES256", "another algorithm"
    raw = _decode(signature)
    public = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), _decode(key))
    pair = encode_dss_signature(int.from_bytes(raw[:32]), int.from_bytes(raw[32:]))
    public.verify(pair, f"{head}.{claims}".encode(), ec.ECDSA(SHA256()))
    found: dict[str, Any] = json.loads(_decode(claims))
    return found
