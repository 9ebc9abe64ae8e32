"""People in front of pages, for tests about rules, members, tokens and sign-in."""

from typing import Any

from django.test import Client

from accounts.models import User

RULES: dict[str, Any] = {
    "approver_role": "approver",
    "approvals_needed": 1,
    "self_approval": "True",
    "notify_content": "preview",
    "time_zone": "UTC",
}


def browser(person: User, *, fresh: bool = True) -> Client:
    """Return a browser in which this person is signed in; without `fresh`, longer ago than a risky
    step allows.
    """
    client = Client()
    client.force_login(person)
    if not fresh:
        session = client.session
        session["signed_in_at"] = session["signed_in_at"] - 301
        session.save()
    return client


def set_rules(person: User, mailbox: Any, **changes: Any) -> Any:
    """Post the page of rules, and return the answer."""
    return browser(person).post(f"/mailboxes/{mailbox.pk}/rules/", {**RULES, **changes})
