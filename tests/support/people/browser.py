"""People in front of pages, for tests about rules, members, tokens and sign-in."""

import copy
import time
from http.cookies import SimpleCookie
from typing import Any

from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.test import Client
from django.utils import timezone

from accounts.models import Mailbox, User
from accounts.people.sessions import SessionStore
from accounts.people.step_up import BEGAN, SINCE
from approvals.gate.rules import change
from approvals.models import ApprovalPolicy

RULES: dict[str, Any] = {
    "approver_role": "approver",
    "approvals_needed": 1,
    "self_approval": "True",
    "notify_content": "preview",
    "time_zone": "UTC",
}


def sign_in(client: Client, person: User, *, seconds_ago: int = 0) -> None:
    """Store a session for this person, and give its cookie to the client.

    It leaves what Django's `force_login` leaves, in two statements instead of ten; a test compares
    them. With `seconds_ago` the last sign-in of the session is as old as that.
    """
    session, now = SessionStore(), time.time()
    session.update(
        {
            SESSION_KEY: str(person.pk),
            BACKEND_SESSION_KEY: settings.AUTHENTICATION_BACKENDS[0],
            HASH_SESSION_KEY: person.get_session_auth_hash(),
            SINCE: now - seconds_ago,
            BEGAN: now,
        }
    )
    session.create()
    person.last_login = timezone.now()
    User.objects.filter(pk=person.pk).update(last_login=person.last_login)
    client.cookies[settings.SESSION_COOKIE_NAME] = str(session.session_key)


def browser(person: User, *, fresh: bool = True) -> Client:
    """Return a browser in which this person is signed in; without `fresh`, longer ago than a risky
    step allows.
    """
    client = Client()
    sign_in(client, person, seconds_ago=0 if fresh else 301)
    return client


def with_cookies(cookies: SimpleCookie) -> Client:
    """Return a browser with a copy of cookies, for a request that is rolled back."""
    client = Client()
    client.cookies = copy.deepcopy(cookies)
    return client


def post_rules(person: User, mailbox: Mailbox, **changes: Any) -> Any:
    """Post the page of rules, and return the answer."""
    return browser(person).post(f"/mailboxes/{mailbox.pk}/rules/", {**RULES, **changes})


def set_rules(person: User, mailbox: Mailbox, **changes: Any) -> None:
    """Set the rules as a valid form would, without the page and its 600 time zones.

    A rule that is not named gets its default, as in the form.
    """
    default = ApprovalPolicy(mailbox=mailbox)
    rules = {name: getattr(default, name) for name in change.RULES}
    assert changes.keys() <= rules.keys()
    change.change_rules(mailbox=mailbox, person=person, rules={**rules, **changes})
