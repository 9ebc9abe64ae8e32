"""The operations of REST: address, parameters, answers.

The tools come from the catalogue, and their answers from the types that their functions return.
"""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

from approvals.core.answers import ActionList, NewWebhookRow, WebhookList
from approvals.outbound.webhooks.api import NewWebhook
from approvals.reports.report import ActionReport
from tools import answers
from tools.catalog.entries import TOOLS, AnyTool, MailboxTool, Tool
from tools.schemas import GetAction, ListActions, Parameters
from tools.sending.answers import Proposed

API = "/api/v1"
# Every operation reads a token, and a body in time; a fault is 500.
EVERYWHERE = ("400", "401", "403", "408", "413", "429", "500", "503")
OF_MAILBOXES = ("404", "409", "424")
# The subjects in the order in which people read about them. Tools of another toolset are under `tools`.
SUBJECTS = {
    "mail": "Read mail",
    "drafts": "Drafts",
    "send": "Propose a mail",
    "actions": "Proposals and their decisions",
    "attachments": "Files to attach",
    "mailboxes": "Mailboxes",
    "webhooks": "Webhooks",
    "tools": "The list of tools",
    "gmail": "Gmail",
    "m365": "Microsoft 365",
}


@dataclass(frozen=True, kw_only=True)
class Answered:
    """One successful answer: its status, the types of its body, and its own headers.

    `links` names operations that take a value of this answer, with the place of the value.
    """

    status: int
    types: tuple[Any, ...] = ()
    description: str = "The result"
    headers: tuple[str, ...] = ()
    links: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One operation. `id` never changes, because generated clients name their functions after it.

    `tag` names the module of generated clients; the reader finds it under `subject`, or `tag`.
    `query` holds the parameters of a GET. `keyed` operations take an `Idempotency-Key`. One that
    `waits` takes `Prefer: wait`.
    """

    id: str
    method: str
    path: str
    tag: str
    summary: str
    answers: tuple[Answered, ...]
    description: str = ""
    subject: str = ""
    path_parameters: Mapping[str, str] = field(default_factory=dict)
    query: type[Parameters] | None = None
    body: Any = None
    upload: bool = False
    keyed: bool = False
    waits: bool = False
    problems: tuple[str, ...] = ()
    scope: str = ""


def operations() -> list[Operation]:
    """Return all operations: those on things, and one for each tool."""
    return [*OF_THINGS, *(_of_tool(tool) for tool in TOOLS.values())]


def _read(*types: Any, waits: bool = False) -> tuple[Answered, ...]:
    """Return the answers of a GET: 200, or 304 to the `ETag` of an earlier one."""
    headers = ("ETag", "Preference-Applied") if waits else ("ETag",)
    return (
        Answered(status=200, types=types, headers=headers),
        Answered(status=304, description="The same as the `If-None-Match`", headers=headers),
    )


def _keyed(status: int, *types: Any, **links: Mapping[str, str]) -> tuple[Answered, ...]:
    headers = ("Idempotency-Replayed",)
    return (Answered(status=status, types=types, headers=headers, links=links),)


OF_THINGS = [
    Operation(
        id="tools_list",
        method="get",
        path="/tools",
        tag="tools",
        summary="The tools your token may call",
        answers=_read(answers.ToolList),
    ),
    Operation(
        id="actions_list",
        method="get",
        path="/actions",
        tag="actions",
        summary="What you have proposed, the newest first",
        query=ListActions,
        answers=_read(ActionList),
        problems=("404", "422"),
        scope="mail:propose",
    ),
    Operation(
        id="actions_get",
        method="get",
        path="/actions/{action_id}",
        tag="actions",
        summary="One action",
        path_parameters={"action_id": "id of an action"},
        query=GetAction,
        waits=True,
        answers=_read(ActionReport, waits=True),
        problems=("404", "422"),
        scope="mail:propose",
    ),
    Operation(
        id="actions_cancel",
        method="post",
        path="/actions/{action_id}/cancel",
        tag="actions",
        summary="Withdraw an action that has not left",
        path_parameters={"action_id": "id of an action"},
        answers=_keyed(200, ActionReport),
        keyed=True,
        problems=("404", "409", "422_keyed"),
        scope="mail:propose",
    ),
    Operation(
        id="mailboxes_list",
        method="get",
        path="/mailboxes",
        tag="mailboxes",
        summary="Your mailboxes",
        answers=_read(answers.MailboxList),
        scope="mail:read",
    ),
    Operation(
        id="mailboxes_get",
        method="get",
        path="/mailboxes/{mailbox_id}",
        tag="mailboxes",
        summary="One mailbox",
        path_parameters={"mailbox_id": "id of a mailbox"},
        answers=_read(answers.MailboxRow),
        problems=("404",),
        scope="mail:read",
    ),
    Operation(
        id="attachments_upload",
        method="post",
        path="/attachments",
        tag="attachments",
        summary="Upload a file to attach; it is kept for a day",
        upload=True,
        answers=_keyed(
            201, answers.UploadedFile, attachments_get={"handle": "$response.body#/handle"}
        ),
        keyed=True,
        problems=("409", "422_keyed"),
        scope="mail:draft or mail:propose",
    ),
    Operation(
        id="attachments_get",
        method="get",
        path="/attachments/{handle}",
        tag="attachments",
        summary="An uploaded file, as long as it lives",
        path_parameters={"handle": "handle of an uploaded file"},
        answers=_read(answers.UploadedFile),
        problems=("404",),
    ),
    Operation(
        id="webhooks_list",
        method="get",
        path="/webhooks",
        tag="webhooks",
        summary="The addresses that get messages about actions",
        answers=_read(WebhookList),
        scope="webhooks:manage",
    ),
    Operation(
        id="webhooks_create",
        method="post",
        path="/webhooks",
        tag="webhooks",
        summary="Tell an address from now on; the answer holds the secret of its signatures, once",
        body=NewWebhook,
        keyed=True,
        answers=_keyed(201, NewWebhookRow, webhooks_delete={"webhook_id": "$response.body#/id"}),
        problems=("409", "415", "422_keyed"),
        scope="webhooks:manage",
    ),
    Operation(
        id="webhooks_delete",
        method="delete",
        path="/webhooks/{webhook_id}",
        tag="webhooks",
        summary="Tell it nothing more",
        path_parameters={"webhook_id": "id of a webhook"},
        answers=(Answered(status=204, description="It gets no more messages"),),
        problems=("404",),
        scope="webhooks:manage",
    ),
]


def _of_tool(tool: AnyTool) -> Operation:
    returned = inspect.signature(tool.run).return_annotation
    types = get_args(returned) or (returned,)
    proposes = Proposed in types
    return Operation(
        id=tool.name,
        method="post",
        path=f"/tools/{tool.name}",
        tag="tools",
        subject=tool.toolset if tool.toolset in SUBJECTS else "",
        summary=tool.name,
        description=tool.description,
        body=tool.parameters,
        answers=_of_run(tool, types),
        keyed=not tool.read_only,
        problems=(
            "415",
            "422" if tool.read_only else "422_keyed",
            *(["403_rules"] if proposes else []),
            *(OF_MAILBOXES if isinstance(tool, MailboxTool) or proposes else ("404", "409")),
        ),
        scope=tool.scope,
    )


def _of_run(tool: Tool, types: tuple[Any, ...]) -> tuple[Answered, ...]:
    headers = () if tool.read_only else ("Idempotency-Replayed",)
    if Proposed not in types:
        return (Answered(status=200, types=types, headers=headers),)
    return (
        Answered(
            status=200,
            types=tuple(answers.ProposalResult if each is Proposed else each for each in types),
            description="The result, or a repeated proposal that has ended",
            headers=headers,
        ),
        Answered(
            status=202,
            types=(answers.ProposalResult,),
            description="A person decides; ask for the action at `Location`",
            headers=("Location", "Retry-After", "Idempotency-Replayed"),
            links={
                "actions_get": {"action_id": "$response.body#/action/id"},
                "actions_cancel": {"action_id": "$response.body#/action/id"},
            },
        ),
    )
