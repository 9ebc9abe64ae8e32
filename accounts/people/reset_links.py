"""The mailed links to a new password."""

from typing import Any

from django.contrib.auth.tokens import PasswordResetTokenGenerator


class ResetLinks(PasswordResetTokenGenerator):
    """Links that end when the account is closed or opened, as all else that it had offered."""

    def _make_hash_value(self, user: Any, timestamp: int) -> str:
        return f"{super()._make_hash_value(user, timestamp)}{user.generation}"
