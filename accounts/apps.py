from allauth.usersessions.apps import UserSessionsConfig
from django.apps import AppConfig


class AccountsConfig(AppConfig):
    name = "accounts"

    def ready(self) -> None:
        # They listen to each sign-in from the first one on, to the checks of the start, and to
        # each second factor that is read or saved.
        from accounts.connect import tenants  # noqa: F401
        from accounts.people import (  # noqa: F401
            address_proof,
            factor_secrets,
            sign_in_events,
            step_up,
        )


class BrowsersConfig(UserSessionsConfig):
    """The library's list of sessions, written by `accounts.people.browsers`: the library itself
    would keep the keys.
    """

    def ready(self) -> None:
        from allauth.account.signals import password_changed, password_set, user_logged_in

        from accounts.people.browsers import on_signed_in

        for signal in (user_logged_in, password_set, password_changed):
            signal.connect(on_signed_in)
