"""Preparation by `manage.py run`: a user, the sandbox mailbox, a token, and a sign-in link."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

from django.conf import settings
from django.urls import reverse

from accounts.connect.connecting import connect_mailbox
from accounts.connect.imap import ImapAccess
from accounts.infra.foreign_text import load_json
from accounts.infra.safe_hosts import Endpoint
from accounts.models import ApiToken, Mailbox, SignInLink, User, digest_of
from accounts.people.address_proof import prove_account
from mailhub.first_run import proposals
from mailhub.sandbox.server import Account, Sandbox
from mailhub.sandbox.state import TOKEN_NAME

TOKEN_SCOPES = ("mail:read", "mail:draft", "mail:propose", "agent:chat")
LINK_LIFETIME = timedelta(hours=12)


def prepare(sandbox: Sandbox) -> dict[str, Any]:
    """Create or refresh everything, write `sandbox.json` with mode 0600, and return its content."""
    me = sandbox.accounts[0]
    first, _, last = me.name.partition(" ")
    user = User.objects.filter(email=me.address).first()
    begins = user is None
    if user is None:
        user = User.objects.create_user(
            me.address, first_name=first, last_name=last, is_staff=True, is_superuser=True
        )
        prove_account(user, how="command")
    mailbox = _connect_mailbox(user, me, sandbox)
    if begins:
        proposals.propose(user, mailbox)
    path = Path(settings.MAILHUB_HOME) / "sandbox.json"
    imap = {"host": sandbox.host, "port": sandbox.imap_port}
    content = {
        "url": settings.MAILHUB_PUBLIC_URL,
        "user": user.email,
        "sign_in_url": settings.MAILHUB_PUBLIC_URL
        + reverse("sign_in_by_link", args=[SignInLink.issue(user=user, lifetime=LINK_LIFETIME)]),
        "api_token": _token(user, mailbox, path),
        "mailbox": mailbox.address,
        "imap": {**imap, "user": me.address, "password": me.password},
        "smtp": {"host": sandbox.host, "port": sandbox.smtp_port},
        "others": [
            {
                "address": other.address,
                "imap": {**imap, "user": other.address, "password": other.password},
            }
            for other in sandbox.accounts[1:]
        ],
    }
    written = path.with_suffix(".new")
    written.touch(mode=0o600)
    written.write_text(json.dumps(content, indent=1))
    written.replace(path)
    return content


def _connect_mailbox(user: User, me: Account, sandbox: Sandbox) -> Mailbox:
    """Connect an ordinary IMAP mailbox again at each start, because a port may have changed."""
    access = ImapAccess(
        imap=Endpoint(host=sandbox.host, port=sandbox.imap_port, security="plain"),
        smtp=Endpoint(host=sandbox.host, port=sandbox.smtp_port, security="plain"),
        username=me.address,
        password=me.password,
    )
    mailbox = connect_mailbox(
        owner=user,
        address=me.address,
        provider=Mailbox.Provider.IMAP,
        secrets=access.as_secrets(),
        scopes=["read", "draft", "send"],
    )
    # The sandbox files no copies, so the first mail need not wait for one.
    unknown = Mailbox.objects.filter(pk=mailbox.pk, provider_files_copies=None)
    unknown.update(provider_files_copies=False)
    return mailbox


def _token(user: User, mailbox: Mailbox, path: Path) -> str:
    try:
        kept = str(load_json(path.read_text())["api_token"])
    except (OSError, ValueError, KeyError):
        kept = ""
    mine = ApiToken.objects.filter(user=user)
    if mine.filter(digest=digest_of(kept), revoked_at=None).exists():
        return kept
    used = mine.filter(name=TOKEN_NAME).first()
    if used and used.revoked_at is None:
        return used.rotate()
    name = f"{TOKEN_NAME} {uuid4()}" if used else TOKEN_NAME  # a revoked token keeps its name
    return ApiToken.issue(user=user, name=name, scopes=list(TOKEN_SCOPES), mailboxes=[mailbox])[1]
