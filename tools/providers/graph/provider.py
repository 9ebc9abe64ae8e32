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
        # first: what a token that is renewed permits decides which way it goes
        self._client.signed_in()
        return super().send(envelope, handover)

    def test(self) -> None:
        """One light read where reading was granted; elsewhere a token is all that can be had."""
        if self._scopes & READS:
            self._client.get("/mailFolders/inbox", {"$select": "id"})
        else:
            self._client.signed_in()
