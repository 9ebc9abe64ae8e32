"""REST: bearer token to Caller, JSON to arguments, Problem to problem details.

There are no rules here.
"""

import hashlib
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import structlog
from django.conf import settings
from django.core.exceptions import BadRequest, SuspiciousOperation
from django.core.files.uploadedfile import UploadedFile
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.multipartparser import MultiPartParserError
from django.shortcuts import render
from django.template.loader import render_to_string
from django.utils.translation import get_language
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_safe
from ninja import NinjaAPI, Router

from accounts.access.audience import lacks_scope
from accounts.access.auth import caller_of_bearer
from accounts.access.keyed_calls import key_in
from accounts.access.rate_limits import count_upload
from accounts.infra.foreign_text import parse_number
from accounts.infra.json_bodies import read_json
from accounts.infra.problems import Problem, fault
from accounts.views.downloads import as_download
from approvals.outbound.webhooks.api import answer_once
from approvals.outbound.webhooks.api import router as gate
from tools import answers
from tools.catalog.calls import Answer, call_tool, tools_for
from tools.catalog.entries import TOOLS, Tool
from tools.mail.text.addresses import file_name
from tools.models import Upload
from tools.reading import links
from tools.schemas import MAX_ATTACHMENT_BYTES
from tools.sending import uploads
from tools.surfaces.api_answers import problem_response
from tools.surfaces.openapi.document import build_document
from tools.surfaces.openapi.page import list_subjects

log = structlog.get_logger(__name__)

RETRY_AFTER_SECONDS = "5"
METADATA = re.compile(r"metadata\[([^\[\]]*)\]")  # OpenAPI's style deepObject
router = Router()


@router.get("/openapi.json", url_name="openapi-json")
def openapi(request: HttpRequest) -> HttpResponse:
    """Return the same document to everybody; it needs no token."""
    return JsonResponse(build_document())


@router.get("/tools", summary="The tools your token may call")
def list_tools(request: HttpRequest) -> HttpResponse:
    caller = caller_of_bearer(request)
    return JsonResponse(
        {
            "tools": [
                {
                    "name": tool.name,
                    "description": tool.description,
                    "effect": tool.effect,
                    "scope": tool.scope,
                    "parameters": tool.parameters.model_json_schema(),
                }
                for tool in tools_for(caller)
            ]
        }
    )


@router.get("/actions", summary="What you have proposed")
def list_actions(request: HttpRequest) -> HttpResponse:
    arguments: dict[str, Any] = dict(request.GET.items())
    pairs = {
        found[1]: arguments.pop(name)
        for name in list(arguments)
        if (found := METADATA.fullmatch(name))
    }
    if pairs:
        arguments["metadata"] = pairs
    if (limit := parse_number(arguments.get("limit", ""))) is not None:
        arguments["limit"] = limit
    if arguments.get("answered") in ("true", "false"):
        arguments["answered"] = arguments["answered"] == "true"
    return _answer(request, "list_actions", arguments)


@router.get("/actions/{action_id}", summary="One action")
def get_action(request: HttpRequest, action_id: str) -> HttpResponse:
    wait = request.GET.get("wait")
    number = parse_number(wait or "", digits=9)
    given = {} if wait is None else {"wait": wait if number is None else number}
    return _answer(request, "get_action", {"action_id": action_id, **given})


@router.post("/actions/{action_id}/cancel", summary="Withdraw an action that has not left")
def cancel_action(request: HttpRequest, action_id: str) -> HttpResponse:
    return _answer(request, "cancel_action", {"action_id": action_id})


@router.get("/mailboxes", summary="Your mailboxes")
def list_mailboxes(request: HttpRequest) -> HttpResponse:
    return _answer(request, "list_mailboxes", {})


@router.get("/mailboxes/{mailbox_id}", summary="One mailbox")
def get_mailbox(request: HttpRequest, mailbox_id: str) -> HttpResponse:
    listed = call_tool(caller_of_bearer(request), "list_mailboxes", {}).result["mailboxes"]
    found = next((mailbox for mailbox in listed if mailbox["id"] == mailbox_id.lower()), None)
    if found is None:
        raise Problem(
            "not_found",
            "The mailbox does not exist, or you may not see it. GET /api/v1/mailboxes lists yours.",
        )
    return JsonResponse(found)


@router.post("/attachments", summary="Upload a file to attach; multipart, field `file`")
def upload_attachment(request: HttpRequest) -> HttpResponse:
    caller = caller_of_bearer(request)
    if not caller.may("mail:propose") and not caller.may("mail:draft"):
        refusal = lacks_scope(caller.surface, held=caller.scopes, needed="mail:draft")
        raise Problem(
            "forbidden",
            "The token lacks the scope mail:draft or mail:propose.",
            headers=refusal.headers,
        )
    given = request.FILES.get("file")
    if not isinstance(given, UploadedFile):
        raise Problem(
            "invalid_input", "Send the file as multipart/form-data in the field `file`.", status=400
        )
    if (given.size or 0) > MAX_ATTACHMENT_BYTES:
        raise Problem("too_large", uploads.TOO_LARGE)
    try:
        name = file_name(given.name or "attachment")
    except ValueError:
        raise Problem("invalid_input", "The file name is not allowed in a mail.") from None
    content, kind = given.read(), given.content_type or ""

    def keep() -> answers.UploadedFile:
        count_upload(caller, len(content))
        kept = uploads.keep(caller, name=name, media_type_=kind, content=content)
        return _describe_upload(kept)

    asked = {"name": name, "type": kind, "sha256": hashlib.sha256(content).hexdigest()}
    return answer_once(request, caller, "attachments", asked, keep)


@router.get("/attachments/{handle}", summary="An uploaded file, as long as it lives")
def get_attachment(request: HttpRequest, handle: str) -> HttpResponse:
    upload = uploads.find(caller_of_bearer(request), handle)
    if upload is None:
        raise Problem("not_found", "The attachment does not exist, or has expired.")
    return JsonResponse(_describe_upload(upload))


def _describe_upload(upload: Upload) -> answers.UploadedFile:
    return {
        "handle": str(upload.id),
        "name": upload.name,
        "type": upload.type,
        "size": upload.size,
        "sha256": upload.sha256,
        "expires_at": upload.expires_at.isoformat().replace("+00:00", "Z"),
    }


@require_safe
def reference(request: HttpRequest) -> HttpResponse:
    """Show the OpenAPI document for people."""
    operations = _render_operations(get_language(), settings.MAILHUB_PUBLIC_URL)
    return render(request, "tools/reference.html", {"operations": operations})


@cache
def _render_operations(language: str | None, base: str) -> str:
    """Return the part of the page that is the same for everybody: it takes more than 0.1 s, and
    strangers may ask for it.
    """
    return render_to_string("tools/reference_operations.html", {"subjects": list_subjects(base)})


@never_cache
@require_GET
def download(request: HttpRequest, secret: str) -> HttpResponse:
    """Return a single-use file. GET only, because HEAD would use it up."""
    try:
        response = links.redeem(secret, as_download)
    except Problem as problem:
        return problem_response(request, problem)
    if response is None:
        return problem_response(
            request, Problem("not_found", "The link is unknown, used, or too old.")
        )
    response["X-Content-Type-Options"] = "nosniff"
    response["Content-Security-Policy"] = "sandbox"
    return response


def _register(tool: Tool) -> None:
    """Register one documented operation for each tool; only `call_tool` checks arguments, on every
    surface.
    """

    def operation(request: HttpRequest) -> HttpResponse:
        caller_of_bearer(request)  # before a byte of the body is read
        return _answer(request, tool.name, read_json(request))

    router.post(f"/tools/{tool.name}", summary=tool.name)(operation)


for _tool in TOOLS.values():
    _register(_tool)


@router.post("/tools/{name}", include_in_schema=False)
def call_unknown_tool(request: HttpRequest, name: str) -> HttpResponse:
    return _answer(request, name, {})


def _answer(request: HttpRequest, name: str, arguments: dict[str, Any]) -> HttpResponse:
    answer: Answer = call_tool(caller_of_bearer(request), name, arguments, key_in(request.headers))
    proposal = answer.proposal
    response = _json(answer.result, status=200 if proposal is None or proposal.final else 202)
    if proposal is not None and not proposal.final:
        response["Location"] = (
            f"{request.path.partition('/tools/')[0]}/actions/{proposal.action_id}"
        )
        response["Retry-After"] = RETRY_AFTER_SECONDS
    if answer.replayed:
        response["Idempotency-Replayed"] = "true"
    return response


def _json(result: Mapping[str, Any], *, status: int = 200) -> JsonResponse:
    return JsonResponse(
        result, status=status, json_dumps_params={"ensure_ascii": False, "separators": (",", ":")}
    )


def make_api() -> NinjaAPI:
    api = NinjaAPI(
        title="mailhub", version="1", urls_namespace="api", docs_url=None, openapi_url=""
    )
    api.add_router("", router)
    api.add_router("", gate)

    @api.exception_handler(Problem)
    def _problem(request: HttpRequest, problem: Problem) -> HttpResponse:
        return problem_response(request, problem)

    @api.exception_handler(BadRequest)
    @api.exception_handler(SuspiciousOperation)
    @api.exception_handler(MultiPartParserError)
    def _unreadable(request: HttpRequest, error: Exception) -> HttpResponse:
        return problem_response(
            request, Problem("invalid_input", "The server cannot read this request.", status=400)
        )

    @api.exception_handler(Exception)
    def _fault(request: HttpRequest, error: Exception) -> HttpResponse:
        log.error("request_failed", exc_info=error)
        return problem_response(request, fault(error))

    return api
