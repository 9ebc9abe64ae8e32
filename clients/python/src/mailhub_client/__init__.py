"""A client of mailhub: read, draft and propose mail, and wait for the person who decides.

with Mailhub("https://mailhub.example", token="mh_YOUR_TOKEN") as hub:
    action = hub.propose_and_wait("send_email", to="mira@northwind.example", subject="Hi", body="…")
    print(action.state)
"""

from mailhub_client.asynchronous import AsyncMailhub
from mailhub_client.client import Mailhub
from mailhub_client.types import FINAL, Action, MailhubError, Preview, Upload
from mailhub_client.webhooks import verify

__all__ = [
    "FINAL",
    "Action",
    "AsyncMailhub",
    "Mailhub",
    "MailhubError",
    "Preview",
    "Upload",
    "verify",
]
