"""A mailbox behind the Gmail API."""

from tools.providers.errors import NotAuthorized
from tools.providers.gmail.answers import COMPOSE_SCOPE
from tools.providers.gmail.sending import GmailSending


class GmailProvider(GmailSending):
    name = "gmail"
    send_scope = COMPOSE_SCOPE
    writes_quote = False
    always_keeps_copy = True

    def test(self) -> None:
        profile = self._client.read("getProfile", lambda users: users.getProfile(userId="me"))
        if str(profile.get("emailAddress", "")).lower() != self._address.lower():
            raise NotAuthorized(
                "auth_error", "Google signs in another account than this mailbox's."
            )
