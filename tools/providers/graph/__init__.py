"""Microsoft 365 over Microsoft Graph (https://learn.microsoft.com/graph/api/resources/message)."""

from tools.providers.graph.provider import GraphProvider

__all__ = ["GraphProvider"]
