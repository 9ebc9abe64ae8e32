"""A mailbox of Microsoft 365."""

from accounts.connect.microsoft import SEND
from tools.providers.base import Envelope, Handover, Receipt
from tools.providers.graph.mailbox import READS
from tools.providers.graph.sending import GraphSending


class GraphProvider(GraphSending):
    name = "microsoft"
    send_scope = SEND
    always_keeps_copy = False

    def send(self, envelope: Envelope, handover: Handover) -> Receipt:
        # first, because the permissions of a renewed token decide how the mail is sent
        self._client.signed_in()
        return super().send(envelope, handover)

    def test(self) -> None:
        """Make one light read if reading was granted; otherwise only get a token."""
        if self._scopes & READS:
            self._client.get("/mailFolders/inbox", {"$select": "id"})
        else:
            self._client.signed_in()
