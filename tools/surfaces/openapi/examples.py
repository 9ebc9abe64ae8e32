"""Examples in the OpenAPI document: a request for each operation besides the tools, and an answer of
each type.

The tests compare them with the schemas.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from accounts.infra.problems import Problem
from tools.catalog.entries import ALICE, ID, MAIL, MIRA, THREAD, TOOLS

_MOMENT = "2026-11-23T09:30:00Z"
_LATER = "2026-11-26T09:30:00Z"
_SHA256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

REQUESTS: dict[str, Mapping[str, Any]] = {name: tool.example for name, tool in TOOLS.items()} | {
    "webhooks_create": {"url": "https://agent.example/hook", "events": ["action.succeeded"]},
}

QUERIES: dict[str, dict[str, Any]] = {
    "actions_list": {"state": "pending", "limit": 20},
    "actions_get": {"wait": 30},
}

_CARD = {
    "id": MAIL,
    "thread_id": THREAD,
    "from": MIRA,
    "name": "Mira",
    "subject": "Thursday",
    "date": _MOMENT,
    "snippet": "Does Thursday suit you?",
    "unread": True,
}
_FILE = {"id": "2", "name": "plan.pdf", "type": "application/pdf", "size": 20480}
_MAILBOX = {
    "id": ID,
    "address": ALICE,
    "provider": "imap",
    "status": "active",
    "scopes": ["read", "draft", "send"],
}
_DRAFT = {"id": MAIL, "uid": 17, "subject": "Thursday", "to": [MIRA], "date": _MOMENT}
_WARNINGS = [{"code": "external_recipient", "text": "Leaves your domain. northwind.example"}]
_ACTION = {
    "id": ID,
    "state": "pending",
    "tool": "send_email",
    "mailbox": ALICE,
    "review_url": f"https://mailhub.example/actions/{ID}/",
    "created_at": _MOMENT,
    "expires_at": _LATER,
    "metadata": {"ticket": "4711"},
}
_SENT = _ACTION | {
    "state": "succeeded",
    "receipt": {"at": _LATER, "recipient_count": 1, "provider": "imap"},
    "review": {"by": ALICE, "verdict": "approved"},
}
_UPLOADED = {
    "handle": ID,
    "name": "plan.txt",
    "type": "text/plain",
    "size": 9,
    "sha256": _SHA256,
    "expires_at": _LATER,
}
_WEBHOOK = {
    "id": ID,
    "url": "https://agent.example/hook",
    "events": ["action.succeeded"],
    "created_at": _MOMENT,
}

_AUDIT = {"sequence": 412, "hash": _SHA256}
MESSAGES: dict[str, dict[str, Any]] = {
    "action": {
        "type": "action.succeeded",
        "timestamp": _LATER,
        "data": {
            **{name: _ACTION[name] for name in ("id", "state", "tool", "mailbox", "review_url")},
            "sequence": 4,
            "next": "It was sent. Do not propose it again.",
            "metadata": {"ticket": "4711"},
            "audit": _AUDIT,
        },
    },
    "security": {
        "type": "security.sign_in_failed",
        "timestamp": _LATER,
        "data": {
            "id": ID,
            "event": "sign_in_failed",
            "actor": "visitor",
            "subject": "7",
            "method": "password",
            "network": "203.0.113.0/24",
            "audit": _AUDIT,
        },
    },
}

RESULTS: dict[str, dict[str, Any]] = {
    "MailboxRow": _MAILBOX,
    "MailboxList": {"mailboxes": [_MAILBOX]},
    "FolderList": {"folders": [{"id": "inbox", "name": "Inbox", "role": "inbox", "unread": 3}]},
    "EmailPage": {"emails": [_CARD], "next_page_token": "10"},
    "SearchPage": {"emails": [_CARD]},
    "Email": {
        "id": MAIL,
        "thread_id": THREAD,
        "from": MIRA,
        "to": [ALICE],
        "subject": "Thursday",
        "date": _MOMENT,
        "body": "Does Thursday suit you?",
        "attachments": [_FILE],
    },
    "Conversation": {
        "thread_id": THREAD,
        "messages": [
            {"id": MAIL, "from": MIRA, "date": _MOMENT, "body": "Does Thursday suit you?"}
        ],
    },
    "AttachmentList": {"attachments": [_FILE]},
    "Download": {"name": "plan.pdf", "type": "application/pdf", "size": 20480, "text": "The plan"},
    "GmailPage": {
        "messages": [{"id": "18c2f0a9d3b4e5f6", "thread_id": "18c2f0a9d3b4e5f6"}],
        "next_page_token": "1",
    },
    "GmailEmail": {
        "id": "18c2f0a9d3b4e5f6",
        "thread_id": "18c2f0a9d3b4e5f6",
        "headers": {"From": MIRA, "To": ALICE, "Subject": "Thursday", "Date": ""},
        "snippet": "Does Thursday suit you?",
        "body_text": "Does Thursday suit you?",
    },
    "DraftRow": _DRAFT,
    "DraftList": {"drafts": [_DRAFT]},
    "Deleted": {"deleted": True},
    "MailPreview": {
        "status": "preview",
        "preview": {
            "kind": "send",
            "mailbox": ALICE,
            "from": ALICE,
            "to": [MIRA],
            "subject": "Thursday",
            "body_excerpt": "Hello Mira, until Thursday.",
            "body_chars": 27,
            "importance": "normal",
            "save_to_sent_items": True,
            "expires_at": "2026-11-24T09:00:00Z",
            "digest": _SHA256,
            "text": f"Send an email to {MIRA}. Nothing has been sent.",
        },
        "warnings": _WARNINGS,
    },
    "CommandPreview": {
        "status": "preview",
        "preview": {
            "kind": "m365",
            "mailbox": ALICE,
            "command": "m365 outlook event remove --id 1",
            "digest": _SHA256,
            "text": "Run in Microsoft 365. Nothing has been sent.",
        },
        "warnings": [],
    },
    "CommandOutput": {"command": "m365 teams team list", "output": "[]"},
    "ProposalResult": {
        "status": "pending",
        "action": _ACTION
        | {
            "next": "A person has not decided yet. Wait for the decision, and do not propose it again.",
            "sequence": 1,
        },
        "warnings": _WARNINGS,
    },
    "ActionReport": _SENT
    | {"next": "A person approved it, and it was sent. Do not propose it again.", "sequence": 3},
    "ActionList": {"items": [_SENT], "next_cursor": "MjAyNi0xMS0yM1QwOTozMDowMFp-M2Yw"},
    "UploadedFile": _UPLOADED,
    "WebhookList": {"items": [_WEBHOOK]},
    "NewWebhookRow": _WEBHOOK | {"secret": "whsec_…"},
    "ToolList": {
        "tools": [
            {
                "name": "list_mailboxes",
                "description": "The mailboxes you may use, with address and status.",
                "effect": "read",
                "scope": "mail:read",
                "parameters": {"type": "object", "properties": {}},
            }
        ]
    },
}


def problem(code: str, status: HTTPStatus, detail: str) -> dict[str, Any]:
    """Return the example of a problem document."""
    document = Problem(code, detail, status=status.value).as_dict("/api/v1/actions")
    if status == HTTPStatus.UNPROCESSABLE_ENTITY and code == "invalid_input":
        document["errors"] = [{"field": "to.0", "message": "is not an e-mail address"}]
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        document["retry_after"] = 41
    return document
