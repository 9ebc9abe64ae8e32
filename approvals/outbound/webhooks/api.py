"""REST endpoints of the gate itself: webhooks."""

from collections.abc import Callable, Mapping
from typing import Any, Literal, Self, cast

from django.http import HttpRequest, HttpResponse, JsonResponse
from ninja import Router
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from accounts.access.audience import lacks_scope
from accounts.access.auth import caller_of_bearer
from accounts.access.caller import Caller
from accounts.access.keyed_calls import call_once, check_key, key_in
from accounts.infra.json_bodies import read_json
from accounts.infra.problems import invalid, not_found
from accounts.models import ApiToken
from approvals.core.answers import NewWebhookRow, WebhookRow
from approvals.models import Webhook
from approvals.outbound.webhooks.events import SECURITY, names_of, rfc3339
from approvals.outbound.webhooks.subscriptions import SCOPE, add_webhook, remove_webhook
from approvals.reports.steps import EVENTS

router = Router()


class NewWebhook(BaseModel):
    """The address and events of a new webhook."""

    model_config = ConfigDict(extra="forbid")

    url: str | None = Field(
        None, min_length=1, max_length=500, description="https, port 443 or 8443"
    )
    callbacks: bool = Field(
        False, description="instead of url: for the callback_url of this token's proposals"
    )
    events: list[Literal[tuple(EVENTS)]] = Field(default=list(EVENTS), min_length=1)  # type: ignore[valid-type]

    @model_validator(mode="after")
    def _require_one(self) -> Self:
        if (self.url is None) != self.callbacks:
            raise ValueError("give a url, or callbacks")
        return self


@router.get("/webhooks", summary="The addresses that get messages about actions")
def list_webhooks(request: HttpRequest) -> HttpResponse:
    _, token = _caller(request)
    return JsonResponse({"items": [_describe(webhook) for webhook in _webhooks_of(token)]})


@router.post("/webhooks")
def create_webhook(request: HttpRequest) -> HttpResponse:
    caller, token = _caller(request)
    try:
        given = NewWebhook.model_validate(read_json(request))
    except ValidationError as error:
        raise invalid(error, NewWebhook) from None

    def create() -> NewWebhookRow:
        webhook, secret = add_webhook(
            caller, token, url=given.url or "", events=given.events, callbacks=given.callbacks
        )
        return {**_describe(webhook), "secret": secret}

    return answer_once(request, caller, "webhooks", given.model_dump(mode="json"), create)


@router.delete("/webhooks/{webhook_id}", summary="Tell it nothing more")
def delete_webhook(request: HttpRequest, webhook_id: str) -> HttpResponse:
    caller, token = _caller(request)
    webhook = next((each for each in _webhooks_of(token) if str(each.pk) == webhook_id), None)
    if webhook is None:
        raise not_found("The webhook does not exist, or you may not see it.")
    remove_webhook(caller, webhook)
    return HttpResponse(status=204)


def answer_once(
    request: HttpRequest,
    caller: Caller,
    tool: str,
    asked: Mapping[str, Any],
    run: Callable[[], Mapping[str, Any]],
) -> HttpResponse:
    """Answer 201 with what a request makes; with an `Idempotency-Key` it is made once."""
    key = check_key(key_in(request.headers))
    made, replayed = (
        (run(), False)
        if key is None
        else call_once(caller, tool=tool, place="", key=key, request=asked, run=run)
    )
    response = JsonResponse(made, status=201)
    if replayed:
        response["Idempotency-Replayed"] = "true"
    return response


def _webhooks_of(token: ApiToken) -> list[Webhook]:
    """Return the webhooks of a token, without those of security events, which a thief would end."""
    return [each for each in Webhook.objects.filter(token=token) if SECURITY not in each.events]


def _caller(request: HttpRequest) -> tuple[Caller, ApiToken]:
    caller = caller_of_bearer(request)
    if not caller.may(SCOPE) or caller.token is None:
        raise lacks_scope(caller.surface, held=caller.scopes, needed=SCOPE)
    return caller, caller.token


def _describe(webhook: Webhook) -> WebhookRow:
    members = {
        "id": str(webhook.pk),
        **({"callbacks": True} if webhook.callbacks else {"url": webhook.url}),
        "events": names_of(webhook),
        "created_at": rfc3339(webhook.created_at),
    }
    ended = {"ended_at": rfc3339(webhook.ended_at)} if webhook.ended_at else {}
    return cast(WebhookRow, members | ended)
