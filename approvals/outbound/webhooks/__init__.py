"""Webhooks as in https://www.standardwebhooks.com: thin, signed, delivered at least once."""
