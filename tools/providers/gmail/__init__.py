"""The Gmail API (https://developers.google.com/workspace/gmail/api/reference/rest)."""

from tools.providers.gmail.provider import GmailProvider

__all__ = ["GmailProvider"]
