"""The receiving end of the queue's notifications on PostgreSQL."""

from uuid import UUID

from approvals.core.notifications import NotifyChannel


class DueChannel(NotifyChannel):
    """Notifications whose payload is the id of an action."""

    def read(self, at_most: int) -> list[UUID]:
        """Return all notifications: every worker receives each of them, and the claim decides."""
        return [UUID(payload) for payload in self.payloads()]
