from django.apps import AppConfig


class ApprovalsConfig(AppConfig):
    name = "approvals"

    def ready(self) -> None:
        # Importing the module registers the checks. The models must be loaded first.
        from accounts.audit_hook import audit_event
        from approvals import checks  # noqa: F401
        from approvals.audit.chain import record_from_accounts

        audit_event.connect(record_from_accounts)
