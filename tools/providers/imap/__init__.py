"""IMAP for reading, SMTP for sending (RFC 3501, RFC 5321)."""

from tools.providers.imap.provider import ImapProvider

__all__ = ["ImapProvider"]
