"""Password strength: a password must not be known from a breach or made of common parts."""

from typing import Any

from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _
from zxcvbn import zxcvbn

NEEDED = 3  # of 4: safe because each guess costs an attacker a slow hash
LOOKED_AT = 32  # characters; 72 odd ones take 2.7 s


class GuessableValidator:
    """A validator that refuses passwords that zxcvbn finds easy to guess."""

    def validate(self, password: str, user: Any = None) -> None:
        own = [user.email, user.first_name, user.last_name] if user is not None else []
        found = zxcvbn(
            password[:LOOKED_AT], user_inputs=[*filter(None, own), "mailhub"], max_length=LOOKED_AT
        )
        if found["score"] < NEEDED:
            raise ValidationError(
                _(
                    "This password is easy to guess: it is in lists of leaked passwords or made of common parts."
                ),
                code="password_guessable",
            )

    def get_help_text(self) -> str:
        return _(
            "Use several words that do not belong together. Leaked and common passwords are refused."
        )
