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


class BrowsersConfig(UserSessionsConfig):
    """The library's list of sessions, written by `accounts.people.browsers`, because the library
    itself would store the session keys.
    """

    def ready(self) -> None:
        from allauth.account.signals import password_changed, password_set, user_logged_in

        from accounts.people.browsers import on_signed_in

        for signal in (user_logged_in, password_set, password_changed):
            signal.connect(on_signed_in)
