from django.apps import AppConfig


class ApprovalsConfig(AppConfig):
    name = "approvals"

    def ready(self) -> None:
        # Registered by being imported; models must be loaded first.
        from approvals import checks  # noqa: F401
