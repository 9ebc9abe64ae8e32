"""The check of a webhook's signature, as https://www.standardwebhooks.com describes."""

import hashlib
import hmac
import json
import time
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any

from mailhub_client.types import MailhubError

SECONDS = 300  # how old a message may be, and how far in the future


def verify(secret: str, headers: Mapping[str, str], body: bytes) -> Any:
    """Return the message in the body, if mailhub signed it with this secret within five minutes.

    `headers` are those of the request. Raises MailhubError.
    """
    given = {name.lower(): value for name, value in headers.items()}
    number, at = given.get("webhook-id", ""), given.get("webhook-timestamp", "")
    key = b64decode(secret.removeprefix("whsec_"))
    digest = hmac.digest(key, f"{number}.{at}.".encode() + body, hashlib.sha256)
    right = f"v1,{b64encode(digest).decode()}".encode()
    signatures = given.get("webhook-signature", "").encode().split()
    if not any(hmac.compare_digest(right, each) for each in signatures):
        raise MailhubError("The message is not signed with this secret.")
    if not at.isdecimal() or len(at) > 18 or abs(time.time() - int(at)) > SECONDS:
        raise MailhubError("The message is too old, or this computer's clock is wrong.")
    return json.loads(body)
