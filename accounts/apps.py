from django.apps import AppConfig


class AccountsConfig(AppConfig):
    name = "accounts"

    def ready(self) -> None:
        from accounts import step_up  # noqa: F401  # it notes each sign-in, from the first one on
