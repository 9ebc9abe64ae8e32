from allauth.usersessions.apps import UserSessionsConfig
from django.apps import AppConfig


class AccountsConfig(AppConfig):
    name = "accounts"

    def ready(self) -> None:
        # Imported here because they register receivers of sign-ins, system checks, and receivers
        # of second factors that are read or saved.
        from accounts.connect import tenants  # noqa: F401
        from accounts.people import (  # noqa: F401
            address_proof,
            factor_secrets,
            sign_in_events,
            step_up,
        )

        # After the receiver that gives a new browser its id.
        self._list_browsers()

    def _list_browsers(self) -> None:
        from allauth.account.signals import (
            password_changed,
            password_reset,
            password_set,
            user_logged_in,
        )
        from django.contrib.auth.signals import user_logged_out

        from accounts.people import browsers

        user_logged_in.connect(browsers.on_signed_in)
        user_logged_out.connect(browsers.on_signed_out)
        for signal in (password_set, password_changed):
            signal.connect(browsers.on_password_changed)
        password_reset.connect(browsers.on_password_reset)


class BrowsersConfig(UserSessionsConfig):
    """The library's sessions, written by `browsers`: the library itself would store their keys."""

    def ready(self) -> None:
        """Connect nothing of the library."""
