from allauth.usersessions.apps import UserSessionsConfig
from django.apps import AppConfig


class AccountsConfig(AppConfig):
    name = "accounts"

    def ready(self) -> None:
        from accounts import step_up  # noqa: F401  # it notes each sign-in, from the first one on


class BrowsersConfig(UserSessionsConfig):
    """The library's list of sessions, written by `accounts.browsers`: the library itself would keep the keys."""

    def ready(self) -> None:
        from allauth.account.signals import password_changed, password_set, user_logged_in

        from accounts.browsers import on_signed_in

        for signal in (user_logged_in, password_set, password_changed):
            signal.connect(on_signed_in)
