from django.apps import AppConfig


class ApprovalsConfig(AppConfig):
    name = "approvals"

    def ready(self) -> None:
        # Importing the module registers the checks. The models must be loaded first.
        from accounts.audit_hook import audit_event, audit_held
        from accounts.people.browsers import browser_ended
        from accounts.people.recovery import rights_taken
        from approvals import checks  # noqa: F401
        from approvals.audit.chain import hold_from_accounts, record_from_accounts
        from approvals.gate.send_back import announce_change
        from approvals.outbound.notifications.channels.adding import (
            remove_chat,
            remove_push,
        )
        from approvals.outbound.webhooks.subscriptions import end_security_webhooks

        audit_event.connect(record_from_accounts)
        audit_event.connect(announce_change)
        audit_held.connect(hold_from_accounts)
        browser_ended.connect(remove_push)
        rights_taken.connect(end_security_webhooks)
        rights_taken.connect(remove_chat)
